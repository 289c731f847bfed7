import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.kube import quantities
from modelyard.kube.quantities import Format, QuantityError


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("0", "0"), ("0Gi", "0"), ("0.0", "0"), ("00", "0"), ("1", "1"), ("1000m", "1"), ("1500m", "1500m"), ("0.5", "500m"),
        ("100.5", "100500m"), ("1000", "1k"), ("1024", "1024"), ("1024Mi", "1Gi"), ("1500Mi", "1500Mi"), ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"), ("2048Ki", "2Mi"), ("512", "512"), ("1e3", "1e3"), ("1E3", "1E3"), ("12e1", "120"), ("1e4", "10e3"),
        ("-1", "-1"), ("-1000m", "-1"), ("+1", "+1"), ("01", "01"), (".5", "500m"), ("1.", "1."), ("0.0000000001", "1n"),
        ("100n", "100n"), ("1000n", "1u"), ("0.1Ki", "102400m"), ("0.0001Ki", "102400u"), ("16Ei", "9223372036854775807"),
        ("1Ei", "1Ei"), ("3E", "3E"), ("1000000", "1M"), ("123456789Gi", "123456789Gi"), (2, "2"), (0.5, "500m"), (" 1Gi ", "1Gi"),
    ],
)  # fmt: skip
def test_quantities_are_stored_in_canonical_form(text: str | float, stored: str) -> None:
    assert quantities.canonical(text) == stored


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "quantities must match the regular expression"), ("abc", "quantities must match the regular expression"),
        ("1 Gi", "quantities must match"), ("1.2.3", "quantities must match"), ("1Gi\n2", "quantities must match"),
        ("1Zi", "quantities must match"), ("1KiB", "quantities must match"), ("1mm", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"), ("1e99999999999", "unable to parse quantity's suffix"),
        ("9" * 5000, "unable to parse numeric part"),
    ],
)  # fmt: skip
def test_bad_quantities_are_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(QuantityError, match=said):
        quantities.parse(text)


def test_comparison_ignores_the_way_an_amount_is_written() -> None:
    assert quantities.same("1", "1000m")
    assert quantities.same(1, "1")
    assert quantities.same("1Gi", "1024Mi")
    assert not quantities.same("1G", "1Gi")
    assert not quantities.same("x", "y")
    assert quantities.same("x", "x")
    assert quantities.compare("500m", "1") == -1
    assert quantities.compare("2", 1) == 1


def test_sums_keep_the_format_of_the_first_amount() -> None:
    assert str(quantities.parse("1Gi") + quantities.parse("1Gi")) == "2Gi"
    assert str(quantities.parse("500m") + quantities.parse("500m")) == "1"
    assert str(quantities.parse("0") + quantities.parse("1Ki")) == "1Ki"
    assert str(quantities.parse("1") - quantities.parse("250m")) == "750m"


@pytest.mark.parametrize(
    ("text", "value", "milli"), [("1500m", 2, 1500), ("-1500m", -2, -1500), ("1n", 1, 1), ("1Ki", 1024, 1024000)]
)
def test_whole_numbers_are_rounded_away_from_zero(text: str, value: int, milli: int) -> None:
    assert quantities.parse(text).value == value
    assert quantities.parse(text).milli == milli


@given(st.integers(-(10**20), 10**20), st.sampled_from(list(Format)))
def test_canonical_text_reads_back_as_the_same_amount(nanos: int, form: Format) -> None:
    text = str(quantities.Quantity(nanos, form))
    assert quantities.parse(text).nanos == nanos
    assert quantities.canonical(text) == text
