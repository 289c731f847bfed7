import pytest

from modelyard.kube import selectors
from modelyard.kube.selectors import SelectorError

LABELS = {"app": "web", "tier": "front", "n": "5"}


@pytest.mark.parametrize(
    ("text", "matches", "canonical"),
    [
        ("", True, ""), ("app=web", True, "app=web"), ("app==web", True, "app==web"), ("app = api", False, "app=api"),
        ("app!=web", False, "app!=web"), ("other!=x", True, "other!=x"), ("app in (web, api)", True, "app in (api,web)"),
        ("app notin (api)", True, "app notin (api)"), ("other notin (a)", True, "other notin (a)"), ("app", True, "app"),
        ("!app", False, "!app"), ("!other", True, "!other"), ("n>4", True, "n>4"), ("n<4", False, "n<4"), ("app>4", False, "app>4"),
        ("tier=front,app=web", True, "app=web,tier=front"), ("app=", False, "app="), ("app in ()", False, "app in ()"),
        ("app in (,web)", True, "app in (,web)"), ("in=x", False, "in=x"), ("app in (in,notin)", False, "app in (in,notin)"),
    ],
)  # fmt: skip
def test_label_selectors_match_and_have_a_canonical_text(text: str, matches: bool, canonical: str) -> None:
    selector = selectors.parse_labels(text)
    assert selector.matches(LABELS) is matches
    assert str(selector) == canonical
    assert selectors.parse_labels(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("app in web", "unable to parse requirement: found 'web' expected: '('"),
        ("app=web,", "found '', expected: identifier after ','"),
        ("=web", "found '=', expected: !, identifier, or 'end of string'"),
        ("app web", "unable to parse requirement: found 'web', expected: in, notin, =, ==, !=, gt, lt"),
        ("app=web x", "found 'x', expected: ',' or 'end of string'"),
        ("app in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
        ("!app=web", "found '=', expected: ',' or 'end of string'"),
        ("app==!x", "unable to parse requirement: found '!', expected: identifier"),
    ],
)
def test_malformed_label_selectors_are_explained(text: str, said: str) -> None:
    with pytest.raises(SelectorError) as caught:
        selectors.parse_labels(text)
    assert str(caught.value) == said


def test_bad_keys_and_values_name_the_rule() -> None:
    with pytest.raises(
        SelectorError, match='unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key'
    ):
        selectors.parse_labels("a/b/c=d")
    with pytest.raises(SelectorError, match=r'values\[0\]\[app\]: Invalid value: "-x": a valid label must be'):
        selectors.parse_labels("app=-x")


def test_selector_objects() -> None:
    assert not selectors.from_object(None).matches(LABELS)
    assert selectors.from_object({}).matches({})
    selector = selectors.from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["front"]},
                {"key": "x", "operator": "DoesNotExist"},
            ],
        }
    )
    assert selector.matches(LABELS)
    assert str(selector) == "app=web,tier in (front),!x"
    assert selector.exact("app") == "web"
    with pytest.raises(SelectorError, match='"Has" is not a valid label selector operator'):
        selectors.from_object({"matchExpressions": [{"key": "a", "operator": "Has"}]})
    with pytest.raises(SelectorError, match="values set can't be empty"):
        selectors.from_object({"matchExpressions": [{"key": "a", "operator": "In"}]})


def test_objects_are_matched_by_their_labels() -> None:
    assert selectors.labels_equal({"a": "b"}).matches_object({"metadata": {"labels": {"a": "b"}}})
    assert not selectors.labels_equal({"a": "b"}).matches_object({"metadata": {}})


def test_field_selectors() -> None:
    pod = {"metadata": {"name": "p"}, "status": {"phase": "Running"}, "spec": {"hostNetwork": True}}
    assert selectors.parse_fields("metadata.name=p,status.phase!=Failed").matches_object(pod)
    assert not selectors.parse_fields("metadata.name==q").matches_object(pod)
    assert selectors.parse_fields("spec.nodeName=").matches_object(pod)
    assert selectors.parse_fields("spec.hostNetwork=true").matches_object(pod)
    assert selectors.parse_fields(r"a=b\,c").requirements[0].value == "b,c"
    assert str(selectors.parse_fields(r"a=b\,c,,b!=x")) == r"a=b\,c,b!=x"
    assert selectors.parse_fields("metadata.name=p").exact("metadata.name") == "p"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name", "invalid selector: 'name'; can't understand 'name'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
    ],
)
def test_malformed_field_selectors_are_explained(text: str, said: str) -> None:
    with pytest.raises(SelectorError) as caught:
        selectors.parse_fields(text)
    assert str(caught.value) == said
