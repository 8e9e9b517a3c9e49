"""Keeps the name primitives for the host's object, whatever code binds to it.

Reads of the name in a call's code are redirected, when it is compiled, to a builtin
whose name nobody can spell. So every binding form of the language keeps its meaning
and its place, as the code's own harmless variable, which no read looks at. A
parameter is left alone: within its function the name is the parameter's. Only names
in the tree are exchanged: lines, columns and sources stay as they were written.
"""

import __future__
import ast
import copy
import sys
import unicodedata

NAME = "primitives"
# Builtins that the redirected code refers to. They are no identifiers, so that
# nothing but such code can reach them; people see them in dis and in dir(builtins).
READ = "primitives of the host"
CHOOSE = "guarded call of the host"

# What compiled text inherits of the future statements around it.
_FUTURES = 0
for _name in __future__.all_feature_names:
    if _name != "nested_scopes":  # its flag means something else in code
        _FUTURES |= getattr(__future__, _name).compiler_flag
_TEXTS = __future__.annotations.compiler_flag
_ONLY_AST = ast.PyCF_ONLY_AST

_RUNNERS = ("exec", "eval", "compile")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# Where a name or an attribute stands, and no other expression may.
_PATTERNS = getattr(ast, "pattern", ())
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_compile, _exec, _eval = compile, exec, eval
_getframe = sys._getframe


def concerns(source):
    """Whether a text may bind the name, or run other text that does."""
    if not source.isascii():  # identifiers are normalised by the compiler
        source = unicodedata.normalize("NFKC", source)
    return NAME in source or "exec" in source or "eval" in source or "compile" in source


def protect(tree, flags=0):
    """Redirects what has to be in a tree, in place. Where annotations are kept as text,
    by the tree or by the flags, that stays what was written."""
    if not (flags & _TEXTS or _has_annotations_as_text(tree)):
        return _redirect(tree)
    annotated = [(n, f, getattr(n, f)) for n in ast.walk(tree) for f in ("annotation", "returns") if getattr(n, f, None)]
    for node, field, _ in annotated:
        setattr(node, field, None)
    _redirect(tree)
    for node, field, annotation in annotated:
        setattr(node, field, annotation)
    return tree


def _has_annotations_as_text(tree):
    body = getattr(tree, "body", None)
    return isinstance(body, list) and any(
        type(n) is ast.ImportFrom and n.module == "__future__" and any(a.name == "annotations" for a in n.names) for n in body
    )


def _redirect(tree):
    _choose_runners(tree)
    # A node, whether the name is a parameter's where the node stands, and whether it
    # is in functions there: these do not see the scope of a class around them.
    pending = [(tree, False, False)]
    while pending:
        node, own, inner = pending.pop()
        kind = type(node)
        if kind is ast.Name:
            if node.id == NAME and type(node.ctx) is ast.Load and not own:
                node.id = READ
        elif kind in _FUNCTIONS:
            pending.extend(_function(node, own, inner))
        elif kind is ast.ClassDef:
            pending.extend(_class(node, own, inner))
        elif kind in _COMPREHENSIONS:
            pending.extend(_comprehension(node, own, inner))
        else:
            if kind.__name__ == "TypeAlias" and _is_type_parameter(node):
                own = inner = True
            if not own:
                _keep_deletions_harmless(node)
            pending.extend((child, own, inner) for child in ast.iter_child_nodes(node))
    return tree


def _function(node, own, inner):
    """The parts of a function, each with the scope that it is evaluated in."""
    arguments = node.args
    outside = [*arguments.defaults, *filter(None, arguments.kw_defaults), *getattr(node, "decorator_list", ())]
    parts = [(part, own, inner) for part in outside]
    if _is_type_parameter(node):
        own = inner = True
    parameters = [*getattr(arguments, "posonlyargs", ()), *arguments.args, *arguments.kwonlyargs]
    parameters += filter(None, (arguments.vararg, arguments.kwarg))
    around = [p.annotation for p in parameters if p.annotation is not None]
    around += [node.returns] if getattr(node, "returns", None) is not None else []
    parts += [(part, own, inner) for part in [*around, *getattr(node, "type_params", ())]]
    body = node.body if isinstance(node.body, list) else [node.body]
    is_own = any(p.arg == NAME for p in parameters) or inner and not _binds(body)
    if not is_own:
        _keep_deletions_harmless(node)
        body = node.body if isinstance(node.body, list) else [node.body]
    return parts + [(part, is_own, is_own) for part in body]


def _class(node, own, inner):
    parts = [(part, own, inner) for part in node.decorator_list]
    if _is_type_parameter(node):
        own = inner = True
    around = [*node.bases, *node.keywords, *getattr(node, "type_params", ())]
    parts += [(part, own, inner) for part in around]
    is_own = inner and not _binds(node.body)
    if not is_own:
        _keep_deletions_harmless(node)
    return parts + [(part, is_own, inner) for part in node.body]


def _comprehension(node, own, inner):
    first = node.generators[0]
    parts = [(first.iter, own, inner)]
    is_own = inner and not any(_stores(generator.target) for generator in node.generators)
    for generator in node.generators:
        inside = [generator.target, *generator.ifs, *([generator.iter] if generator is not first else [])]
        parts += [(part, is_own, is_own) for part in inside]
    results = [node.key, node.value] if type(node) is ast.DictComp else [node.elt]
    # PEP 798 unpacks a dict in a comprehension without a value.
    return parts + [(part, is_own, is_own) for part in results if part is not None]


def _is_type_parameter(node):
    return any(getattr(parameter, "name", None) == NAME for parameter in getattr(node, "type_params", ()))


def _stores(target):
    return any(type(n) is ast.Name and n.id == NAME and type(n.ctx) is ast.Store for n in ast.walk(target))


def _binds(body):
    """Whether statements make the name one of their own scope, or the module's."""
    pending = [(node, False) for node in body]
    found = False
    while pending:
        node, in_comprehension = pending.pop()
        kind = type(node)
        if kind is ast.Nonlocal and NAME in node.names:
            return False
        if kind is ast.Global and NAME in node.names:
            return True
        if kind is ast.NamedExpr:
            found = found or node.target.id == NAME
        elif kind is ast.Name:
            # What a comprehension binds is its own, but for := in it.
            found = found or node.id == NAME and type(node.ctx) is not ast.Load and not in_comprehension
        elif kind in (ast.Import, ast.ImportFrom):
            found = found or any((a.asname or a.name.partition(".")[0]) == NAME for a in node.names)
        elif kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
            found = found or node.name == NAME
        elif NAME in (getattr(node, "name", None), getattr(node, "rest", None)):
            found = True  # except-as and the captures of match
        if kind in _FUNCTIONS or kind is ast.ClassDef:
            outside = list(getattr(node, "decorator_list", ()))
            if kind is ast.ClassDef:
                outside += [*node.bases, *node.keywords]
            else:
                outside += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            pending.extend((part, in_comprehension) for part in outside)
            continue
        in_comprehension = in_comprehension or kind in _COMPREHENSIONS
        pending.extend((child, in_comprehension) for child in ast.iter_child_nodes(node))
    return found


def _keep_deletions_harmless(node):
    """Binds the name just before statements that delete it: whether the code had bound
    it is then all the same."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if not isinstance(block, list) or not any(map(_deletes, block)):
            continue
        kept = []
        for statement in block:
            if _deletes(statement):
                place = dict(
                    lineno=statement.lineno, col_offset=statement.col_offset,
                    end_lineno=statement.end_lineno, end_col_offset=statement.end_col_offset,
                )
                target = ast.Name(NAME, ast.Store(), **place)
                kept.append(ast.Assign([target], ast.Constant(None, **place), **place))
            kept.append(statement)
        setattr(node, field, kept)


def _deletes(statement):
    return type(statement) is ast.Delete and any(
        type(n) is ast.Name and n.id == NAME and type(n.ctx) is ast.Del for n in ast.walk(statement)
    )


def _choose_runners(tree):
    """Has whatever may be exec, eval or compile chosen by its value, also where it is
    only named, so that it is guarded under any other name too."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, _PATTERNS):
            continue
        for field, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            pending.extend(part for part in parts if isinstance(part, ast.AST))
            if isinstance(value, list):
                value[:] = map(_chosen, value)
            else:
                setattr(node, field, _chosen(value))


def _chosen(node):
    """The call that gives the guarded form of a builtin, for an expression that may give
    one; anything else as it is."""
    if not _may_give_runner(node) or type(getattr(node, "ctx", None)) in (ast.Store, ast.Del):
        return node
    place = dict(
        lineno=node.lineno, col_offset=node.col_offset,
        end_lineno=node.end_lineno, end_col_offset=node.end_col_offset,
    )
    return ast.Call(ast.Name(CHOOSE, ast.Load(), **place), [node], [], **place)


def _may_give_runner(node):
    """Whether an expression has the name of a runner, or looks something up by it."""
    kind = type(node)
    if kind is ast.Name:
        return node.id in _RUNNERS
    if kind is ast.Attribute:
        return node.attr in _RUNNERS
    if kind is ast.Subscript:
        return _is_runners_name(getattr(node.slice, "value", None)) or _is_runners_name(node.slice)
    return kind is ast.Call and any(map(_is_runners_name, node.args))


def _is_runners_name(node):
    return type(node) is ast.Constant and node.value in _RUNNERS


def compile_guarded(source, filename, mode, flags=0, optimize=-1, **more):
    """Compiles text, bytes or a tree; flags that the caller inherits are among them."""
    if isinstance(source, ast.AST):
        tree = protect(copy.deepcopy(source), flags)
    elif isinstance(source, str) and not concerns(source):
        tree = source
    else:
        tree = _compile(source, filename, mode, flags | _ONLY_AST, True, optimize, **more)
        protect(tree, flags)
    return _compile(tree, filename, mode, flags, True, optimize, **more)


def choose(function):
    """Gives the guarded form of exec, eval and compile, and anything else as it is."""
    return _GUARDED.get(function, function) if type(function) is _BUILTIN else function


class Runner:
    """What guarded code has for a builtin that runs text. It is no function, since one
    in a class would become a method."""

    def __init__(self, original):
        self.__name__ = self.__qualname__ = original.__name__
        self.__doc__ = original.__doc__
        self.__module__ = original.__module__

    def __repr__(self):
        return "<built-in function %s>" % self.__name__

    def __reduce__(self):
        return eval, (self.__name__,)  # another process has the builtin


class Compile(Runner):
    def __call__(self, source, filename, mode, flags=0, dont_inherit=False, optimize=-1, **more):
        if not dont_inherit:
            flags |= _inherited(_getframe(1))
        if flags & _ONLY_AST:
            return _compile(source, filename, mode, flags, True, optimize, **more)
        return compile_guarded(source, filename, mode, flags, optimize, **more)


class Exec(Runner):
    def __call__(self, source, /, globals=None, locals=None, **more):
        code, globals, locals = _prepare(_getframe(1), source, "exec", globals, locals)
        return _exec(code, globals, locals, **more)


class Eval(Runner):
    def __call__(self, source, /, globals=None, locals=None):
        code, globals, locals = _prepare(_getframe(1), source, "eval", globals, locals)
        return _eval(code, globals, locals)


def _prepare(frame, source, mode, globals, locals):
    """What exec and eval were to run, and where: in the caller's scope by default."""
    if globals is None:
        globals = frame.f_globals
        if locals is None:
            locals = frame.f_locals
            if sys.version_info >= (3, 13) and frame.f_code.co_flags & 1:  # CO_OPTIMIZED
                locals = dict(locals)  # a snapshot of a function's, see PEP 667
    elif isinstance(globals, dict):
        globals.setdefault("__builtins__", frame.f_builtins)
    if locals is None:
        locals = globals
    if isinstance(source, (str, bytes, bytearray, memoryview)):
        if mode == "eval" and isinstance(source, (str, bytes, bytearray)):
            source = source.lstrip(" \t" if isinstance(source, str) else b" \t")
        source = compile_guarded(source, "<string>", mode, _inherited(frame))
    return source, globals, locals


def _inherited(frame):
    return frame.f_code.co_flags & _FUTURES


_BUILTIN = type(exec)
_GUARDED = {exec: Exec(exec), eval: Eval(eval), compile: Compile(compile)}
for _original, _own in _GUARDED.items():
    type(_own).__call__.__qualname__ = _original.__name__  # in what is said of wrong arguments
