"""The text of a .proto as an event schema: equal to that of its descriptor, and each mistake with its line."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.events.protobuf.descriptors import event_schema_of
from cutwater.core.events.protobuf.proto_text import CHARACTERS_MAX, proto_schema
from cutwater.core.events.registry_ids import REFERENCED_MAX
from support.events import messages
from support.events.proto_printer import nested, proto_text
from support.events.random_messages import random_file

_D = descriptor_pb2.FieldDescriptorProto
DEFAULTS = {
    _D.TYPE_INT32: ("-2147483648", "7"),
    _D.TYPE_UINT64: ("18446744073709551615",),
    _D.TYPE_DOUBLE: ("1e+300", "-0.1"),
    _D.TYPE_FLOAT: ("0.5", "-1e-10"),
    _D.TYPE_BOOL: ("true", "false"),
    _D.TYPE_STRING: ("größe 'x' \"\\", "\0\n"),
    _D.TYPE_BYTES: ("\\000\\377abc\\'\\\"\\\\\\n",),
    _D.TYPE_ENUM: ("BLUE", "AZURE", "DARK"),
}


def schema_of(text: str, name: str = "shop.Order", **files: str) -> dict[str, Any]:
    """`files`: by name, without `.proto` and with `__` for a slash."""
    found = {f"{one.replace('__', '/')}.proto": text for one, text in files.items()}
    return proto_schema(text, name, "orders.proto", found.get)


def order(fields: str, syntax: str = "proto3", before: str = "") -> str:
    return f'syntax = "{syntax}"; package shop; {before} message Order {{ {fields} }}'


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_the_schema_of_a_text_is_that_of_its_descriptor(syntax: str) -> None:
    """Random types up to the deepest level, in texts with comments, odd spaces, and names in every form."""
    for seed in range(12):
        rng = random.Random(seed)
        file = nested(random_file(rng, syntax), rng)
        _add_defaults(file.message_type, syntax, rng)
        text = proto_text(file, rng)
        made = event_schema_of(messages.descriptor_set(file), messages.NAME, "event.desc")
        assert schema_of(text) == made, (seed, text)
    rng = random.Random(syntax)
    text = proto_text(messages.file(), rng)
    assert schema_of(text) == event_schema_of(messages.descriptor_set(), messages.NAME, "event.desc")


def _add_defaults(inside: Any, syntax: str, rng: random.Random) -> None:
    for one in inside:
        _add_defaults(one.nested_type, syntax, rng)
        for field in one.field:
            may = syntax == "proto2" and field.label != 3 and not one.options.map_entry
            if may and field.type in DEFAULTS and rng.random() < 0.7:
                field.default_value = rng.choice(DEFAULTS[field.type])


def test_names_are_looked_up_from_the_innermost_scope() -> None:
    """As protoc does: the first scope with the name's first word counts, and packages are scopes too."""
    text = """
        syntax = "proto3"; package a.b;
        import "other.proto"; import "same.proto";
        message T { string outer = 1; }
        message Order {
          message T { string inner = 1; message In { string deep = 1; } }
          message Mid {
            T one = 1; .a.b.T two = 2; b.T three = 3; T.In four = 4; c.T five = 5; In six = 6; M map = 7;
          }
          Mid mid = 1; string T_ = 2; map<string, T> by_name = 3; optional .a.b.M word = 4;
        }
        message In { string top = 1; } message M { string m = 1; }
    """
    other = 'syntax = "proto3"; package a.c; message T { string other = 1; }'
    same = 'syntax = "proto3"; package a.b; message Same { string same = 1; }'
    made = schema_of(text, "a.b.Order", other=other, same=same)
    mid = made["fields"][0]["type"][1]["fields"]
    names = [_full(one["type"][1]) for one in mid]
    assert names == ["a.b.Order.T", "a.b.T", "a.b.T", "a.b.Order.T.In", "a.c.T", "a.b.In", "a.b.M"]
    assert made["fields"][2]["type"]["values"] == "a.b.Order.T"


def _full(node: Any) -> str:
    return node if isinstance(node, str) else f"{node['namespace']}.{node['name']}"


def test_a_compound_name_does_not_go_on_outwards() -> None:
    """Order.b hides the package a.b, as in protoc."""
    text = 'syntax = "proto3"; package a.b; message T {string x=1;} '
    text += "message Order { message b {string x=1;}\n b.T t = 1; }"
    with pytest.raises(UsageError, match=r"orders\.proto:2: the field 't' is of type 'b\.T', which neither"):
        schema_of(text, "a.b.Order")


def test_imports_are_seen_as_protoc_sees_them() -> None:
    """An import of an import only if it is public."""
    money = 'syntax = "proto3"; package common; message Money { int64 cents = 1; }'
    text = order("common.Money price = 1;", before='import "between.proto";')
    between = 'syntax = "proto2"; import {} "common/money.proto"; import "orders.proto";'
    made = schema_of(text, between=between.format("public"), common__money=money)
    assert made["fields"][0]["type"][1]["fields"][0]["name"] == "cents"
    with pytest.raises(UsageError, match=r"common/money\.proto declares: import that file here"):
        schema_of(text, between=between.format(""), common__money=money)


def test_files_of_google_need_no_file() -> None:
    names = ("timestamp", "duration", "wrappers", "any", "field_mask", "descriptor", "struct", "empty")
    imports = " ".join(f'import "google/protobuf/{one}.proto";' for one in names)
    fields = "google.protobuf.Timestamp at = 1; google.protobuf.Duration d = 2; google.protobuf.BoolValue b = 3;"
    made = schema_of(order(fields, before=imports))
    shown = [one["protobuf"]["type"] for one in made["fields"]]
    assert shown == ["timestamp", "message", "wrapper"]
    assert [one["name"] for one in made["fields"][1]["type"][1]["fields"]] == ["seconds", "nanos"]


ODD = """\
        // no syntax is proto2
        option java_package = "x"; option (own).part = { a: "}" b { c: 1 } };
        package shop;
        import weak "google/protobuf/descriptor.proto";
        extend google.protobuf.FieldOptions { optional string pii = 50001 [default = "}"]; }
        service S { option (x) = {}; rpc R (Order) returns (stream Order) { option (y) = { a: "}" }; } };
        message Order {
          option deprecated = true; reserved 5, 9 to max; reserved "x";
          extensions 1000 to max [declaration = {a: "]"}];
          extend Order { optional int32 more = 1000; }
          required string key = 1 [(pii) = "a]", default = "a\\"b" 'c\\x41\\101\\u00e4\\n', deprecated = false];
          optional string message = 2; optional int32 option = 3 [default = 0x10]; ;
        };
    """


def test_what_says_nothing_about_events_is_skipped() -> None:
    made = schema_of(ODD)
    assert [(one["name"], one.get("default", "required")) for one in made["fields"]] == [
        ("key", "required"),
        ("message", None),
        ("option", 16),
    ]
    text = ODD.replace("required string", "optional string")
    assert schema_of(text)["fields"][0]["default"] == 'a"bcAAä\n'


def test_defaults_of_numbers_are_those_of_protoc() -> None:
    """A float's is the nearest number of four bytes, in protoc's digits."""
    written = {
        "double": (".5", "017", "0x10", "1e3", "-1.", "1.7976931348623157e308"),
        "float": (".1", "0.123456789", "16777217", "1e-3"),
        "sint64": ("-0x8000000000000000", "010", "0"),
    }
    read = {
        "double": [0.5, 15.0, 16.0, 1000.0, -1.0, 1.7976931348623157e308],
        "float": [0.1, 0.123456791, 16777216.0, 0.001],
        "sint64": [-(1 << 63), 8, 0],
    }
    for kind, texts in written.items():
        fields = "".join(f"optional {kind} f{at} = {at + 1} [default = {one}];" for at, one in enumerate(texts))
        made = schema_of(order(fields, "proto2"))
        assert [one["default"] for one in made["fields"]] == read[kind]


MISTAKES = {
    "string key = 1": "1: expected ';' behind the field 'key', found '}'",
    "\n\nstring = 1;": "3: expected the field's name, found '='",
    "string key;": "1: expected '=' and a number behind the field 'key', found ';'",
    "string key = 0;": "1: the field's number must be from 1 to 536870911, not 0",
    "string key = 1.5;": "1: expected the field's number, which is an integer, found '1.5'",
    "string key = 08;": "1: expected the field's number, which is an integer, found '08'",
    "string key = 5abc;": "1: expected a number",
    "string key = 19500;": "1: the numbers 19000 to 19999 are Protobuf's own",
    "string a = 1;\nstring b = 1;": "2: two fields of message shop.Order have 1",
    "string a = 1;\nstring a = 2;": "2: two fields of message shop.Order have 'a'",
    "required string key = 1;": "1: proto3 has no 'required' fields",
    "string key = 1 [default = 'x'];": "1: only a field of proto2 that is not repeated has a default",
    "string key = 1 [a = 1;": "1: expected ']' behind the options, found ';'",
    "string key = 1 [(a) = {b: 1];": "1: expected ']' behind the options, found the end of the file",
    "Missing m = 1;": "1: the field 'm' is of type 'Missing', which neither the file nor its imports declare",
    "Ordr m = 1;": "declare; did you mean 'shop.Order'?",
    "/* open": "1: expected '*/' behind the comment that begins here, found the end of the file",
    "\n// é\nstring key = 1 [a = 'open\n'];": "3: expected ' at the end of the text on its line",
    "string key = 1; \x01": "1: expected a name, a number, a text or a mark, found '\\x01'",
    "map<double, string> m = 1;": "1: keys of a map are integers, bool or string, not 'double'",
    "repeated map<string, string> m = 1;": "1: a map has no label, and is in no oneof",
    "map<string, map<string, string>> m = 1;": "1: expected '>' behind the type of the map's values, found '<'",
    "oneof o { repeated string s = 1; }": "1: a field of a oneof has no label, found 'repeated'",
    "oneof o { }": "1: expected a field of the oneof, found '}'",
    "optional group G = 1 { }": "1: a group, which is not read: remove it from a copy of the .proto",
    "enum E { }": "1: enum 'shop.Order.E' has no values",
    "enum E { A = 1; }": "1: the first value of an enum of proto3 has the number 0",
    "enum E { A = 0; B = 0; }": "1: two values have one number, and the enum has no 'option allow_alias = true'",
    "enum E { A = 0; A = 1; }": "1: two values of enum shop.Order.E have 'A'",
    "enum E { A = 0;\nB = 3000000000; }": "2: the value's number must be from -2147483648 to 2147483647",
    "message M {}\nmessage M {}": "2: 'shop.Order.M' is declared twice",
    "reserved 1": "1: expected ';', found '}'",
    "reserved 1\nstring key = 2;": "2: expected ';', found 'string'",
    "option a = 1\nstring key = 2;": "2: expected ';' behind the option, found 'string'",
    "option a = ;": "1: expected the option's value, found ';'",
    "message M {" * 40: "1: messages may be 32 levels deep",
    "Order self = 1;": "field 'self' contains itself, which is not read: remove it from a copy of the .proto;",
}


@pytest.mark.parametrize("fields", MISTAKES, ids=lambda one: repr(one[:30]))
def test_each_mistake_is_told_with_its_line(fields: str) -> None:
    with pytest.raises(UsageError) as caught:
        schema_of(order(fields))
    assert MISTAKES[fields] in str(caught.value)
    assert str(caught.value).startswith("orders.proto:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'edition = "2023";',
            "orders.proto:1: editions are not read: use a copy of the .proto with syntax proto2",
        ),
        ('\nsyntax = "proto4";', "orders.proto:2: syntax 'proto4': proto2 and proto3 are read"),
        ("syntax = proto3;", 'orders.proto:1: expected "proto2" or "proto3", found \'proto3\''),
        (
            "\nmesage Order {}",
            "orders.proto:2: expected message, enum, import, package, option, service or extend",
        ),
        ("message A {}\npackage shop;", "orders.proto:2: expected one package, before all messages and enums"),
        (
            'import "../up.proto";',
            "orders.proto:1: an import names a file below the folder of orders.proto, not '../",
        ),
        ('import "/etc/x.proto";', "orders.proto:1: an import names a file below the folder of orders.proto"),
        (
            '\nimport "common/x.proto";',
            "orders.proto:2: imports 'common/x.proto', which is not there: put it beside",
        ),
        (
            "message A { string s = 1; }",
            "orders.proto:1: expected optional, required or repeated before a field of",
        ),
        ("message A { optional group G = 1 {} }", "orders.proto:1: a group, which is not read"),
        (
            "message A { repeated int32 x = 1 [default = 1]; }",
            "orders.proto:1: only a field of proto2 that is not",
        ),
        ("message A { optional bool x = 1 [default = 1]; }", "orders.proto:1: expected a name as the default"),
        (
            "message A { optional bool x = 1 [default = on]; }",
            "orders.proto:1: expected true or false, found 'on'",
        ),
        ("message A { optional int32 x = 1 [default = 5000000000]; }", "orders.proto:1: the default must be from"),
        (
            "message A { optional float x = 1 [default = 1e60]; }",
            "orders.proto:1: the default '1e60' is too great",
        ),
        (
            "message A { optional string x = 1 [default = '\\xff']; }",
            "orders.proto:1: the default is no text of UTF-8",
        ),
        ("message A { optional string x = 1 [default = '\\q']; }", "orders.proto:1: the escape '\\q' in a text"),
        (
            "message A { optional A x = 1 [default = B]; }",
            "orders.proto:1: the field 'x' is a message, and has a def",
        ),
        (
            "enum E {B=1;} message A { optional E x = 1 [default = C]; }",
            "the field 'x' has the default 'C', which E",
        ),
        ("message A { optional int32 x = 1; }", "orders.proto has no message 'shop.Order'; it has: A"),
    ],
)
def test_a_wrong_file_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        schema_of(text)
    assert str(caught.value).startswith(said) or said in str(caught.value)


def test_a_mistake_of_an_imported_file_names_that_file() -> None:
    with pytest.raises(UsageError, match=r"^common/money\.proto:2: expected"):
        schema_of(order("", before='import "common/money.proto";'), common__money="\nmessage")
    with pytest.raises(UsageError, match=r"^a\.proto: 'shop\.Order' is declared in orders\.proto too"):
        schema_of(order("", before='import "a.proto";'), a=order("string s = 1;"))


def test_files_are_bounded_in_number_and_size() -> None:
    def chain(name: str) -> str:
        at = int(re.sub(r"\D", "", name))
        return f'import "f{at + 1}.proto";'

    with pytest.raises(UsageError, match=rf"may import {REFERENCED_MAX} files"):
        proto_schema('import "f0.proto";', "shop.Order", "orders.proto", chain)
    with pytest.raises(UsageError, match=r"characters with them"):
        schema_of('import "a.proto";', a=" " * CHARACTERS_MAX)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_mutilated_text_raises_no_other_error(data: st.DataObject) -> None:
    """A part of the text is left out, doubled, or has something else in its place."""
    begin = data.draw(st.integers(0, len(ODD)))
    end = data.draw(st.integers(begin, min(len(ODD), begin + 200)))
    more = data.draw(
        st.one_of(st.text(max_size=20), st.just(ODD[begin:end] * 2), st.sampled_from(["{", "}", '"']))
    )
    with suppress(UsageError):
        assert schema_of(ODD[:begin] + more + ODD[end:])["type"] == "record"


def test_members_of_each_oneof_and_a_default_by_its_other_name() -> None:
    """Fields of two oneofs, and an enum's value that has two names."""
    made = schema_of(order("oneof a { int32 b = 1; string c = 2; } oneof d { int32 e = 3; int32 f = 4; }"))
    assert [one["protobuf"]["members"] for one in made["fields"]] == [[1, 2], [1, 2], [3, 4], [3, 4]]
    symbols = "enum E { option allow_alias = true; A = 1; B = 1; } optional E e = 1 [default = B];"
    (field,) = schema_of(order(symbols, "proto2"))["fields"]
    assert (field["type"]["symbols"], field["default"]) == (["A"], "A")
