#!/usr/bin/env python3
"""Brings the table of an engine's settings up to a version, out of its package on PyPI.

    scripts/settings.py vllm 0.34.0                   # also sglang, vllm-router, sglang-router
    scripts/settings.py --compare sglang 0.5.23       # writes nothing: how table and package differ

Nothing of the package is run. pip reads single files out of its wheel by ranges, which takes
seconds, and their syntax trees tell the options. It knows how the engines declare them today:
calls of add_argument, fields of vLLM's configurations, and SGLang's annotated fields. What a
constant does not say is "?" in the table: a person looks at it, and at the diff.
"""

import argparse
import ast
import json
import pathlib
import re
import sys
import zipfile

try:  # what pip has for itself: it reads as the user has told it to, by which proxy and from which mirror
    from pip._internal.commands.download import DownloadCommand
    from pip._internal.index.collector import parse_links
    from pip._internal.models.link import Link
    from pip._internal.network.lazy_wheel import HTTPRangeRequestUnsupported, LazyZipOverHTTP
    from pip._vendor.packaging.version import Version
except ImportError as e:
    sys.exit(f"pip of {sys.executable} cannot be used: {e}. Versions 23.0 and 23.2 can")

TABLES = pathlib.Path(__file__).resolve().parent.parent / "engines" / "setting"

# By engine: the file whose function makes the parser, more files in which classes and constants stand, and where
# its variables are.
ENGINES = {
    "vllm": (
        ["vllm/engine/arg_utils.py", "vllm/entrypoints/common/cli_args.py", "vllm/entrypoints/openai/cli_args.py"],
        r"vllm/config/\w+\.py",
        "vllm/envs.py",
    ),
    "sglang": (
        ["sglang/srt/server_args.py"],
        r"sglang/srt/arg_groups/(fields/\w+|choices)\.py",
        "sglang/srt/environ.py",
    ),
    "vllm-router": (["vllm_router/router_args.py", "vllm_router/launch_router.py"], r"$", None),
    "sglang-router": (["sglang_router/router_args.py", "sglang_router/launch_router.py"], r"$", None),
}


class Wheels:
    """The wheels of a project where pip finds packages, of which only what is asked for is read."""

    def __init__(self, project):
        self.project, self.links, pages = project, {}, []

        class Command(DownloadCommand):
            def run(self, options, args):
                self.session = self._build_session(options)
                collector = self._build_package_finder(options, self.session, ignore_requires_python=True)._link_collector
                for index in collector.search_scope.get_index_urls_locations(project):
                    pages.append(collector.fetch_response(Link(index)))
                return 0

        command = Command("download", "")
        command.main([project])
        self.session = command.session
        if not any(pages):
            sys.exit(f"PyPI is not reached: say by which proxy (HTTPS_PROXY) or mirror (PIP_INDEX_URL) it has {project}")
        for page in filter(None, pages):
            for link in parse_links(page):
                if link.is_wheel:
                    self.links.setdefault(Version(link.filename.split("-")[1]), []).append(link)

    def open(self, version):
        if version not in self.links:
            sys.exit(f"PyPI has no wheel of {self.project} {version}: the newest are {' '.join(map(str, sorted(self.links)[-5:]))}")
        first = min(self.links[version], key=lambda link: ("x86_64" not in link.filename and "none-any" not in link.filename, link.filename))
        try:
            return zipfile.ZipFile(LazyZipOverHTTP(first.url_without_fragment, self.session))
        except HTTPRangeRequestUnsupported:
            sys.exit(f"{first.url_without_fragment}: a mirror that gives no parts of files cannot be read: say another (PIP_INDEX_URL)")


def parsed(archive, name):
    try:
        return ast.parse(archive.read(name))
    except SyntaxError as e:
        sys.exit(f"{name}: {e}: it may be written for a newer Python than this, {sys.version.split()[0]}")


class Source:
    """Syntax trees of some files, with the classes and constants at their tops by name."""

    def __init__(self, archive, engine):
        parsers, more, _ = ENGINES[engine]
        names = archive.namelist()
        self.parsers = [parsed(archive, n) for n in parsers if n in names]
        trees = self.parsers + [parsed(archive, n) for n in names if re.fullmatch(more, n)]
        self.classes, self.constants = {}, {}
        for tree in trees:
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.constants.setdefault(node.targets[0].id, node.value)

    def value(self, node, names={}):
        """What an expression of constants is; KeyError: it is none."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.value(n, names) for n in node.elts]
        if isinstance(node, ast.Dict) and not node.keys:
            return {}
        if isinstance(node, ast.Name):
            if node.id in names:
                return names[node.id]
            return self.value(self.constants[node.id], names)
        if isinstance(node, ast.JoinedStr):
            return "".join(str(self.value(n.value if isinstance(n, ast.FormattedValue) else n, names)) for n in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.value(node.left, names) + self.value(node.right, names)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):  # of a class: a field's default
            return self.default(self.field(node.value.id, node.attr).value)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cls", "field", "Field", "dataclasses.field", "msgspec.field"):
            return self.default(node)
        raise KeyError(ast.unparse(node))

    def default(self, node):
        if isinstance(node, ast.Call):
            words = {k.arg: k.value for k in node.keywords}
            if "default" in words:
                return self.value(words["default"])
            if node.args and ast.unparse(node.func) == "Field":
                return self.value(node.args[0])
            factory = ast.unparse(words["default_factory"]) if "default_factory" in words else ""
            if factory in ("list", "dict"):
                return [] if factory == "list" else {}
            if factory.startswith("lambda: "):
                return self.value(words["default_factory"].body)
            raise KeyError(ast.unparse(node))
        return None if node is None else self.value(node)

    def fields(self, name):
        """The annotated fields of a class and of those that it is made of."""
        cls, out = self.classes.get(name), {}
        for base in cls.bases if cls else ():
            out.update(self.fields(ast.unparse(base).split(".")[-1]))
        for node in cls.body if cls else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                out[node.target.id] = node
        return out

    def field(self, cls, name):
        return self.fields(cls)[name]

    def words(self, annotation):
        """The words of a type, and the choices of its literals, through the names of types."""
        words, choices = set(), []
        for node in ast.walk(annotation):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value).split(".")[-1] == "Literal":
                for each in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
                    choices += self.words(each)[1] if isinstance(each, ast.Name) else [self.value(each)]
                words.add("Literal")
            elif isinstance(node, ast.Name):
                words.add(node.id)
                inner = self.constants.get(node.id)
                if isinstance(inner, (ast.Subscript, ast.BinOp)):
                    more, others = self.words(inner)
                    words |= more
                    choices += others
            elif isinstance(node, ast.Constant) and node.value is None:
                words.add("None")
        return words, choices


def row(names, type="str", choices="-", default="?", instead="", deprecated=False):
    long = [n for n in names if n.startswith("--")] or names
    bare = [n[2:] if n.startswith("--") else n for n in long + [n for n in names if n not in long]]
    return {"name": bare[0], "names": bare, "type": type, "choices": choices, "default": default, "instead": instead,
            "deprecated": deprecated}


def text(value):
    if value is None:
        return "-"
    if value == "":
        return '""'
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, dict)) else str(value)


def literal(source, node, default="?"):
    try:
        return text(source.default(node))
    except (KeyError, TypeError):
        return default


def of_vllm(source, name, field):
    """What vLLM's get_kwargs makes of a field of a configuration."""
    words, choices = source.words(field.annotation)
    simple = next((w for w in ("int", "float") if w in words), "str")
    many = next((m for m in ("tuple", "list", "set") if m in words), None)
    if any(w in source.classes and w.endswith("Config") for w in words):
        kind = "json"
    elif words == {"bool", "str", "None"}:
        kind = "str?"
    elif "bool" in words:
        kind = "switch/no"
    elif "Literal" in words:
        kind = "int" if choices and all(isinstance(c, int) for c in choices) else "str"
    elif many:
        kind = simple + "+"
    elif simple == "str" and "dict" in words or "Any" in words:
        kind = "json"
    else:
        kind = simple
    if "str" in words:
        choices = []
    if choices and "None" in words:
        choices = choices + ["none"]
    return kind, "|".join(dict.fromkeys(map(str, choices))) or "-", literal(source, field.value)


def of_sglang(source, name, field):
    """What SGLang's add_cli_args_from_dataclass makes of an annotated field; None: nothing."""
    note = field.annotation
    if not (isinstance(note, ast.Subscript) and ast.unparse(note.value) == "A"):
        return None
    inner, metas = note.slice.elts[0], note.slice.elts[1:]
    arg = next((m for m in metas if isinstance(m, ast.Call) and ast.unparse(m.func) == "Arg"), None)
    if arg is None and not any(isinstance(m, (ast.Constant, ast.JoinedStr, ast.BinOp)) for m in metas):
        return None
    words = {k.arg: k.value for k in arg.keywords} if arg else {}
    if "no_cli" in words:
        return None
    first = source.value(words["cli_name"]) if "cli_name" in words else "--" + name.replace("_", "-")
    names = [first] + (source.value(words["aliases"]) if "aliases" in words else [])
    types, choices = source.words(inner)
    parser = ast.unparse(words["type_parser"]) if "type_parser" in words else ""
    if "action" in words and "BooleanOptional" in ast.unparse(words["action"]):
        kind = "switch/no"
    elif "action" in words:
        kind = "str" if "nargs" not in ast.unparse(words.get("action_kwargs", ast.Constant(0))) else "str+"
    elif not parser and types & {"bool"} and "Literal" not in types:
        kind = "switch"
    else:
        kind = "json" if "json" in parser else next((w for w in ("int", "float") if w in types | {parser}), "str")
        if not parser and types & {"List", "list"}:
            kind += "+"
        if "nargs" in words:
            kind = kind.rstrip("+") + source.value(words["nargs"])
    listed = literal(source, words["choices"]) if "choices" in words else ""
    if listed.startswith("["):
        choices = json.loads(listed)
    return row(names, kind, "|".join(str(c) for c in choices) or ("?" if listed == "?" else "-"), literal(source, field.value))


def called(source, call, kwargs, names={}):
    """A call of add_argument; None: of a positional, or with a name that is no constant, which is told."""
    try:
        options = [source.value(a, names) for a in call.args]
    except KeyError:
        if "cls" not in kwargs.values():  # else it adds the fields of its own class, which are read by themselves
            print(f"Passed over, since its name is no constant (line {call.lineno}): {ast.unparse(call)}", file=sys.stderr)
        return None
    words = {k.arg: k.value for k in call.keywords if k.arg}
    kind, choices, default = "str", "-", "-"
    for k in call.keywords:  # **kwargs["field"], also with members of its own
        for node in ast.walk(k.value) if k.arg is None else ():
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):
                cls, name = kwargs.get(node.value.id), node.slice.value
                if cls in source.classes and name in source.fields(cls):
                    kind, choices, default = of_vllm(source, name, source.field(cls, name))
    action = ast.unparse(words["action"]) if "action" in words else ""
    nargs = words["nargs"].value if isinstance(words.get("nargs"), ast.Constant) else None
    if re.search(r"store_?true", action, re.I):
        kind, default = "switch", "false"
    elif re.search(r"store_?false", action, re.I):
        kind, default = "switch", "true"
    elif nargs == 0 or re.search(r"store_?const|'(append_const|count|help|version)'", action, re.I):
        kind = "switch"
    elif "BooleanOptional" in action:
        kind = "switch/no"
    elif action in ("'append'", "'extend'"):
        kind += "..."
    elif "type" in words:
        kind = {"int": "int", "float": "float", "json.loads": "json"}.get(ast.unparse(words["type"]), "str")
    if nargs:
        kind = kind.rstrip("+*?") + str(nargs)
    if "choices" in words:
        listed = literal(source, words["choices"])
        choices = "|".join(map(str, json.loads(listed))) if listed.startswith("[") else "?"
    if "default" in words:
        default = literal(source, words["default"])
    help = ast.unparse(words["help"]) if "help" in words else ""
    old = "deprecat" in action.lower() or "deprecated" in words or re.match(r"['\"f(]*\W?deprecated", help.lower()) is not None
    instead = str(source.value(words["new_flag"])) if "new_flag" in words else ""
    if old and not instead and (m := re.search(r"[Uu]se (--[\w-]+(?:=\w+)?)", help)):
        instead = m[1]
    options = [o for o in options if o.startswith("-")]
    return row(options, kind, choices, default, instead, old) if options else None


def options(source, engine):
    """All options of a version."""
    out = {}

    def add(r):
        if r:
            out.setdefault(r["name"], r)

    for tree in source.parsers:
        for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
            if not re.search(r"add_cli_args|make_arg_parser|add_.*parser|parse_.*args|_add_", function.name):
                continue
            kwargs = {}  # variable: the class whose fields it has
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "get_kwargs":
                    kwargs[ast.unparse(node.targets[0])] = ast.unparse(node.value.args[0])
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                    add(called(source, node, kwargs, {"prefix": "", "router_prefix": ""}))
    if engine == "vllm":
        for name, field in source.fields("FrontendArgs").items():
            kind, choices, default = of_vllm(source, name, field)
            add(row(["--" + name.replace("_", "-")], kind, choices, default))
    if engine == "sglang":
        for cls in source.classes.values():
            for node in cls.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    add(of_sglang(source, node.target.id, node))
    for message in source.constants.values():  # "--x is deprecated … Use --y"
        content = literal(source, message)
        m = re.search(r"--([\w-]+)\)? is deprecated", content)
        for option in out.values():
            if m and m[1] in option["names"]:
                use = re.search(r"[Uu]se (--[\w.-]+\w)", content)
                option["deprecated"], option["instead"] = True, option["instead"] or (use[1] if use else "")
    return list(out.values())


def variables(archive, engine):
    """Names of the environment variables that an engine lists."""
    path = ENGINES[engine][2]
    if not path or path not in archive.namelist():
        return []
    content, found = archive.read(path).decode(), set()
    for node in ast.walk(parsed(archive, path)):
        names = []
        if engine == "vllm" and isinstance(node, ast.Dict):
            names = [k.value for k in node.keys if isinstance(k, ast.Constant)]
        elif engine == "sglang" and isinstance(node, ast.ClassDef):
            names = [s.targets[0].id for s in node.body
                     if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and isinstance(s.value, ast.Call)]
        found |= {n for n in names if isinstance(n, str) and re.fullmatch(r"[A-Z][A-Z0-9_]{3,}", n)}
    if engine == "sglang":
        found |= set(re.findall(r"[\"']((?:SGLANG|SGL)_[A-Z0-9_]{3,})[\"']", content))
    return [row([n]) for n in sorted(found)]


class Table:
    """A file of the table."""

    def __init__(self, name):
        self.path, self.rows = TABLES / (name + ".tsv"), []
        lines = self.path.read_text().splitlines()
        head = next(i for i, line in enumerate(lines) if not line.startswith("#"))
        self.comments, self.columns = lines[:head], lines[head].split("\t")
        self.versions = self.comments[0].removeprefix("# versions read: ").split()
        self.rows = [dict(zip(self.columns, line.split("\t"))) for line in lines[head + 1:]]

    def spelt(self, r, version):
        """The names that a row has in a version, which is one of the newest two."""
        has = lambda spans: any(s.endswith(".." + version) for s in re.split(r",\s*", spans))
        own = re.search(r"itself ([\w.,]+)", r.get("note", ""))
        names = [r["name"]] if not own or has(own[1]) else []
        for alias in r.get("aliases", "").split():
            name, _, spans = alias.rstrip("]").partition("[")
            if not spans or has(spans):
                names.append(name)
        return names if not r["last"] or r["last"] == version else []

    def differences(self, found):
        newest = self.versions[-1]
        there = {n for r in self.rows for n in self.spelt(r, newest)}
        now = {n for o in found for n in o["names"]}
        return sorted(there - now), sorted(now - there)

    def update(self, version, found, before):
        """Adds what was found of a version. Of forms and defaults only what differs from what was found of the one before
        counts, so that what this script reads wrong is no change."""
        old, by = self.versions[-1], {n: o for o in found for n in o["names"]}
        earlier = {n: o for o in before for n in o["names"]}
        known = {n for r in self.rows if not r["last"] for n in self.spelt(r, old)}
        for r in self.rows:
            names = self.spelt(r, old)
            if not names or r["last"]:
                continue
            option = next((by[n] for n in names if n in by), None)
            if option is None:
                r["last"] = old
                continue
            still = [n for n in names if n in option["names"]]
            extend = lambda m: m[0].replace(".." + old, ".." + version)
            aliases = [re.sub(r"\[.*\]", extend, a) if a.split("[")[0] in still else a if "[" in a else f"{a}[{r['first'].removeprefix('<=')}..{old}]"
                       for a in r.get("aliases", "").split()]
            aliases += [f"{n}[{version}..{version}]" for n in option["names"] if n not in names]
            note = r.get("note", "")
            note = re.sub(r"(?:itself |^in |; in )[\w., ]+", extend, note)
            was = next((earlier[n] for n in names if n in earlier), option)
            if "type" in r:
                for column, form in (("type", "%s to %s in %s"), ("default", "default %s to %s in %s")):
                    if option[column] not in ("?", was[column], r[column]) and was[column] != "?":
                        note = "; ".join(filter(None, [note, form % (r[column], option[column], version)]))
                        r[column] = option[column]
                if option["choices"] not in ("?", was["choices"]):
                    r["choices"] = option["choices"]
                if option["deprecated"] and not was["deprecated"]:
                    r["deprecated"], r["instead"] = version, option["instead"]
                r["aliases"] = " ".join(aliases)
            r["note"] = note
        for option in found:
            if not known & set(option["names"]):
                more = {"aliases": " ".join(option["names"][1:]), "first": version, "last": "", "note": "",
                        "deprecated": version if option["deprecated"] else ""}
                self.rows.append({**{c: option.get(c, "") for c in self.columns}, **{c: v for c, v in more.items() if c in self.columns}})
        self.versions.append(version)
        self.comments[0] = "# versions read: " + " ".join(self.versions)
        self.rows.sort(key=lambda r: r["name"])
        lines = self.comments + ["\t".join(self.columns)] + ["\t".join(r[c] for c in self.columns) for r in self.rows]
        self.path.write_text("\n".join(lines) + "\n")


def read(engine, archive):
    """What a wheel has, by the file of the table, and in which of the files that the engine is known to declare it."""
    found = {engine: options(Source(archive, engine), engine)}
    if listed := variables(archive, engine):
        found[engine + "-env"] = listed
    parsers, _, listing = ENGINES[engine]
    return found, {*parsers, listing} & set(archive.namelist())


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--compare", action="store_true", help="write nothing")
    arguments.add_argument("engine", choices=ENGINES)
    arguments.add_argument("version", type=Version)
    a = arguments.parse_args()
    wheels = Wheels(a.engine)
    found, files = read(a.engine, wheels.open(a.version))
    tables = {name: Table(name) for name in found}
    for name, table in tables.items():
        gone, new = table.differences(found[name])
        print(f"{name} {a.version}: {len(found[name])} settings. Against {table.versions[-1]} there are no more:",
              " ".join(gone) or "none", "\n  and new:", " ".join(new) or "none")
    newest = Version(tables[a.engine].versions[-1])
    if a.compare or a.version == newest:
        return
    if a.version < newest:
        sys.exit(f"The tables are read up to {newest}: spans of versions grow at their ends only")
    before, known = read(a.engine, wheels.open(newest))
    if moved := known - files:
        sys.exit(f"{a.version} has no {' '.join(moved)}: say in ENGINES where its settings are now")
    if skipped := [str(v) for v in sorted(wheels.links)
                   if newest < v < a.version and not v.is_prerelease and not all(link.is_yanked for link in wheels.links[v])]:
        print(f"What came or went after {newest} is told of {a.version}. Releases between, to be read first if that matters:", " ".join(skipped))
    for name, table in tables.items():
        table.update(str(a.version), found[name], before[name])


if __name__ == "__main__":
    main()
