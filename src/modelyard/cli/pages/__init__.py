"""The pages that are made from declarations: dataflow, kinds, settings, metrics, the command line."""
