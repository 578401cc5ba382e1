"""Reads TTIR's text, one operation a line, as Triton prints it after its passes. Pure."""

from __future__ import annotations

import re

from torch_aule.triton.ir import BITS, Block, Function, Op, Place, Type, Unsupported, Value

__all__ = ["parse_type", "read"]

_NAME = r"%[\w$.-]+"
_USE = re.compile(rf"{_NAME}(?:#\d+)?")
_LINE = re.compile(rf'(?:({_NAME}(?:, {_NAME})*)(?::(\d+))? = )?"?([a-z_]+\.[\w.]+)"?(.*)$')
_PAIR = re.compile(rf"({_NAME}): ((?:[^,(){{}}<>]|<[^>]*>)+)")
_COMPARISONS = ("arith.cmpi", "arith.cmpf")


def parse_type(text: str) -> Type:
    """A type, from ``tensor<64x!tt.ptr<f32>>`` or ``i32``."""
    text = text.strip()
    shape: tuple[int, ...] = ()
    if match := re.match(r"tensor<((?:\d+x)*)(.*)>$", text):
        shape, text = tuple(int(n) for n in match[1].split("x")[:-1]), match[2]
    if match := re.match(r"!tt\.ptr<([\w!.<>]+?)(?:, \d+)?>$", text):
        inner = "ptr" if match[1].startswith("!tt.ptr") else match[1]
        if inner not in BITS:
            raise Unsupported(f"the type {inner} is not served on aule")
        return Type("ptr", shape, inner)
    if text not in BITS:
        raise Unsupported(f"the type {text} is not served on aule")
    return Type(text, shape)


def _split(text: str, separator: str) -> list[str]:
    """At separators outside of brackets and quotes; the arrow's head closes none."""
    parts, depth, begin, i, quoted = [], 0, 0, 0, False
    while i < len(text):
        c = text[i]
        if quoted or c == '"':
            quoted = (c != '"' or text[i - 1] == "\\") if quoted else True
        elif text.startswith("->", i):
            if depth == 0 and separator == " -> " and text.startswith(" -> ", i - 1):
                parts.append(text[begin : i - 1])
                begin = i + 3
            i += 1
        elif c in "<({[":
            depth += 1
        elif c in ">)}]":
            depth -= 1
        elif depth == 0 and separator != " -> " and text.startswith(separator, i):
            parts.append(text[begin:i])
            begin = i + len(separator)
        i += 1
    return [*parts, text[begin:]]


def _types(text: str) -> list[Type]:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return [parse_type(part) for part in _split(text, ", ") if part.strip()]


def _without_places(line: str) -> tuple[str, str]:
    """A line without any loc(...), and the last one."""
    found = ""
    while (at := line.find(" loc(")) >= 0:
        depth, end, quoted = 0, at + 4, False
        while True:
            c = line[end]
            if c == '"':
                quoted = not quoted
            elif not quoted:
                depth += (c == "(") - (c == ")")
                if depth == 0:
                    break
            end += 1
        found = line[at + 5 : end]
        line = line[:at] + line[end + 1 :]
    return line.strip(), found


class _Places:
    """From a location's text to the file and line where it was written; of a call, those of the callee."""

    def __init__(self, text: str):
        self._known = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, flags=re.M))

    def of(self, text: str) -> Place:
        for _ in range(64):
            if match := re.match(r'"([^"]*)":(\d+):\d+', text):
                return Place(match[1], int(match[2]))
            inner = re.search(r"#loc\d*", text)
            if inner is None or inner[0] not in self._known:
                break
            text = self._known[inner[0]]
        return Place()

    def name(self, text: str) -> str:
        """The first name of a value: Triton renames it where it is assigned to another name."""
        found = ""
        while match := re.match(r'"([^"]*)"\((#loc\d*)\)$', text):
            found, text = match[1], self._known.get(match[2], "")
        return found


class _Reader:
    def __init__(self, text: str):
        self.places = _Places(text)
        self.lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#loc")]
        self.at = 0
        self.values: dict[str, Value] = {}

    def function(self) -> Function:
        heads = [i for i, line in enumerate(self.lines) if line.lstrip().startswith("tt.func")]
        if len(heads) != 1:
            raise Unsupported("functions that are not inlined (noinline) are not served on aule")
        self.at = heads[0]
        named = {
            name: self.places.name(where)
            for name, where in re.findall(rf'({_NAME}): [^%]*?loc\(("[^"]*"\(#loc\d*\))\)', self.lines[self.at])
        }
        head, _ = _without_places(self.lines[self.at])
        self.at += 1
        match = re.match(r"tt\.func (?:public |private )?@([\w.$]+)\((.*)\)(?: attributes \{.*\})? \{$", head)
        if match is None:
            raise Unsupported(f"a function with results is not served on aule: {head}")
        arguments, aligned = [], {}
        for part in _split(match[2], ", "):
            if not part:
                continue
            name, _, rest = part.partition(": ")
            kind, _, attributes = rest.partition(" {")
            value = Value(name, parse_type(kind))
            if known := re.search(r"tt\.divisibility = (\d+)", attributes):
                aligned[name] = int(known[1])
            self.values[name] = value
            arguments.append(value)
        return Function(match[1], arguments, aligned, self.blocks(), named)

    def blocks(self) -> dict[str, Block]:
        """Labelled blocks up to the line that closes the region, which is left to read."""
        blocks = {"": Block()}
        block = blocks[""]
        while not self.lines[self.at].lstrip().startswith("}"):
            line, where = _without_places(self.lines[self.at])
            self.at += 1
            if line.startswith("^"):
                label = re.split(r"[(:]", line)[0]
                if block.ops or len(blocks) > 1:
                    block = blocks[label] = Block()
                block.arguments = self.arguments(line.split("//")[0])
            else:
                block.ops.append(self.op(line, where))
        return blocks

    def region(self) -> Block:
        (block,) = self.blocks().values()
        if not block.ops or not block.end.name.endswith((".yield", ".return", ".condition")):
            block.ops.append(Op("scf.yield", [], [], "", "", Place()))  # MLIR leaves out one that yields nothing
        return block

    def arguments(self, text: str) -> list[Value]:
        """Declares ``%a: f32, %b: tensor<4xi32>``."""
        found = []
        for name, kind in _PAIR.findall(text):
            self.values[name] = Value(name, parse_type(kind))
            found.append(self.values[name])
        return found

    def uses(self, text: str) -> list[Value]:
        return [self.values[name] for name in _USE.findall(text)]

    def op(self, line: str, where: str) -> Op:
        place = self.places.of(where)
        match = _LINE.match(line)
        if match is None:
            raise Unsupported(f"{place}: this line of TTIR cannot be read: {line}")
        names, count, name, rest = match.groups()
        op = Op(name, [], [], rest.strip(), "", place)
        special = getattr(self, "read_" + name.replace(".", "_"), self.generic if rest.endswith("({") else self.plain)
        try:
            types = special(op)
        except Unsupported as error:
            raise error.at(place) from error.__cause__
        for value in op.operands:
            value.users.append(op)
        self.declare(op, names, int(count or 0), types)
        return op

    def declare(self, op: Op, names: str | None, count: int, types: list[Type]) -> None:
        if not names:
            return
        own = names.split(", ")
        if count:
            own = [f"{own[0]}#{i}" for i in range(count)]
        if len(own) != len(types):
            raise op.unsupported()
        for name, kind in zip(own, types, strict=True):
            value = Value(name, kind, op)
            self.values[name] = value
            op.results.append(value)

    def plain(self, op: Op) -> list[Type]:
        """The usual form: words and operands, attributes in braces, types behind a colon."""
        parts = _split(op.text, " : ")
        body, types = (parts[0], parts[-1]) if len(parts) > 1 else (op.text, "")
        if (brace := body.find("{")) >= 0:
            body, op.attributes = body[:brace].strip(), body[brace:]
        op.text = body
        op.operands = self.uses(body)
        if not types:
            return []
        for arrow in (" -> ", " to "):
            if len(pieces := _split(types, arrow)) == 2:
                return _types(pieces[1]) * (2 if op.name == "tt.split" else 1)
        if op.name == "tt.load":
            return [_types(types)[0].loaded()]
        if op.name == "tt.addptr":
            return _types(types)[:1]
        found = _types(types)
        if op.name in _COMPARISONS:
            return [Type("i1", found[0].shape)]
        return found[-1:]

    def generic(self, op: Op) -> list[Type]:
        """``"tt.reduce"(%a, %b) <{axis = 0 : i32}> ({ ... }) : (types) -> types``."""
        op.attributes = op.text
        op.operands = self.uses(op.text[: op.text.index(")")])
        op.regions.append(self.region())
        end, where = _without_places(self.lines[self.at])
        self.at += 1
        op.place = self.places.of(where)
        return _types(_split(end[end.index("(") :], " -> ")[1])

    def read_tt_assert(self, op: Op) -> list[Type]:
        op.operands = self.uses(op.text.partition('"')[0])
        return []

    def read_tt_print(self, op: Op) -> list[Type]:
        op.operands = self.uses(op.text.rpartition('"')[2])
        return []

    def read_arith_constant(self, op: Op) -> list[Type]:
        text, _, kind = op.text.rpartition(" : ")
        op.text = text or op.text
        return [parse_type(kind)] if text else [Type("i1")]

    def read_scf_for(self, op: Op) -> list[Type]:
        match = re.match(
            rf"(?:unsigned )?({_NAME}) = ({_NAME}(?:#\d+)?) to ({_NAME}(?:#\d+)?) step ({_NAME}(?:#\d+)?)\s*"
            r"(?:iter_args\((.*?)\) -> \((.*)\))?\s*(?:: (\w+))? \{$",
            op.text,
        )
        if match is None:
            raise op.unsupported("this form of loop")
        op.attributes = "unsigned" if op.text.startswith("unsigned") else ""
        pairs = re.findall(rf"({_NAME}) = ({_NAME}(?:#\d+)?)", match[5] or "")
        op.operands = [self.values[name] for name in (*match.groups()[1:4], *(init for _, init in pairs))]
        types = _types(match[6] or "")
        kind = Type(match[7] or "i32")
        inner = [Value(match[1], kind), *(Value(name, type) for (name, _), type in zip(pairs, types))]
        self.values |= {value.name: value for value in inner}
        block = self.region()
        block.arguments = inner
        op.regions = [block]
        self.close(op)
        return types

    def read_scf_while(self, op: Op) -> list[Type]:
        match = re.match(r"(?:\((.*?)\) )?: \((.*)\) -> \(?(.*?)\)? \{$", op.text)
        if match is None:
            raise op.unsupported("this form of loop")
        pairs = re.findall(rf"({_NAME}) = ({_NAME}(?:#\d+)?)", match[1] or "")
        op.operands = [self.values[init] for _, init in pairs]
        inner = [Value(name, type) for (name, _), type in zip(pairs, _types(match[2]))]
        self.values |= {value.name: value for value in inner}
        before = self.region()
        before.arguments = inner
        self.at += 1  # } do {
        op.regions = [before, self.region()]
        self.close(op)
        return _types(match[3])

    def read_scf_if(self, op: Op) -> list[Type]:
        match = re.match(r"(%\S+)(?: -> \(?(.*?)\)?)? \{$", op.text)
        if match is None:
            raise op.unsupported("this form of branch")
        op.operands = self.uses(match[1])
        op.regions = [self.region()]
        if self.lines[self.at].strip().startswith("} else {"):
            self.at += 1
            op.regions.append(self.region())
        self.close(op)
        return _types(match[2] or "")

    def close(self, op: Op) -> None:
        _, where = _without_places(self.lines[self.at])
        op.place = self.places.of(where)
        self.at += 1

    def read_cf_br(self, op: Op) -> list[Type]:
        return self.branches(op, op.text)

    def read_cf_cond_br(self, op: Op) -> list[Type]:
        condition, _, rest = op.text.partition(", ")
        op.operands = self.uses(condition)
        return self.branches(op, rest)

    def branches(self, op: Op, text: str) -> list[Type]:
        for label, values in re.findall(r"(\^bb\d+)(?:\(([^)]*)\))?", text):
            given = self.uses(values)
            op.targets.append((label, given))
            op.operands += given
        return []


def read(text: str) -> Function:
    """The only function of a module of TTIR.

    Parameters
    ----------
    text : str
        As Triton prints it.

    Returns
    -------
    Function

    Raises
    ------
    Unsupported
        If it has what cannot be read, or several functions.
    """
    return _Reader(text).function()
