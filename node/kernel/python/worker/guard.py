"""Makes the name primitives always read as the host's object, whatever code binds to it.

When a call's code is compiled, reads of the name are redirected to a builtin whose name
is not an identifier. Bindings are not changed: they set an ordinary variable that no
read looks at. A parameter of that name is an exception: inside its function the name is
the parameter. Only names in the tree are replaced, so lines, columns and sources stay as
they were written.
"""

import __future__
import ast
import copy
import sys
import unicodedata

NAME = "primitives"
# The builtins to which redirected code refers. Their names are not identifiers, so that
# other code cannot bind them; people see them in dis and in dir(builtins).
READ = "primitives of the host"
CHOOSE = "guarded call of the host"

# The flags of future statements, which text that code compiles inherits.
_FUTURES = 0
for _name in __future__.all_feature_names:
    if _name != "nested_scopes":  # its flag means something else in code
        _FUTURES |= getattr(__future__, _name).compiler_flag
_TEXTS = __future__.annotations.compiler_flag
_ONLY_AST = ast.PyCF_ONLY_AST

_RUNNERS = ("exec", "eval", "compile")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# Nodes in which a name or an attribute must not be replaced by a call.
_PATTERNS = getattr(ast, "pattern", ())
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_compile, _exec, _eval = compile, exec, eval
_getframe = sys._getframe


def concerns(source):
    """Whether a text may use the name, or run other text that does."""
    if not source.isascii():  # identifiers are normalised by the compiler
        source = unicodedata.normalize("NFKC", source)
    return NAME in source or "exec" in source or "eval" in source or "compile" in source


def protect(tree, flags=0):
    """Redirects the reads in a tree, in place. If annotations are kept as text, because of
    a future statement in the tree or in the flags, they stay as written."""
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
    # Each entry: a node, whether the name is a parameter in the node's scope (own), and
    # whether it is one in functions inside the node (inner), which do not see the scope of
    # a class around them.
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
    """The parts of a function, each with (own, inner) of the scope that evaluates it."""
    arguments = node.args
    decorators = [part for part in getattr(node, "decorator_list", ()) if not _is_accessor(part, node)]
    outside = [*arguments.defaults, *filter(None, arguments.kw_defaults), *decorators]
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


def _is_accessor(decorator, function):
    """Whether a decorator adds an accessor to the property of the name that it decorates, as
    @primitives.setter does: such a property is a class's own attribute."""
    return (
        function.name == NAME and type(decorator) is ast.Attribute and decorator.attr in ("getter", "setter", "deleter")
        and type(decorator.value) is ast.Name and decorator.value.id == NAME
    )


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
    """Whether statements bind the name in their own scope, or declare it global."""
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
            # A comprehension's bindings are its own, except those of := in it.
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
    """Binds the name just before each statement that deletes it, so that the deletion
    does not fail if the code has not bound it."""
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
    """Wraps each expression that may be exec, eval or compile in a call of choose, which
    looks at the value. So these are guarded under another name too."""
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
    """Wraps an expression that may be exec, eval or compile in a call of choose; returns
    any other as it is."""
    if not _may_give_runner(node) or type(getattr(node, "ctx", None)) in (ast.Store, ast.Del):
        return node
    place = dict(
        lineno=node.lineno, col_offset=node.col_offset,
        end_lineno=node.end_lineno, end_col_offset=node.end_col_offset,
    )
    return ast.Call(ast.Name(CHOOSE, ast.Load(), **place), [node], [], **place)


def _may_give_runner(node):
    """Whether an expression is exec, eval or compile by name, or looks up such a name."""
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
    """Compiles text, bytes or a tree, guarded. flags include those that the caller
    inherits."""
    if isinstance(source, ast.AST):
        tree = protect(copy.deepcopy(source), flags)
    elif isinstance(source, str) and not concerns(source):
        tree = source
    else:
        tree = _compile(source, filename, mode, flags | _ONLY_AST, True, optimize, **more)
        protect(tree, flags)
    return _compile(tree, filename, mode, flags, True, optimize, **more)


def choose(function):
    """Returns the guarded form of exec, eval or compile, and any other value as it is."""
    return _GUARDED.get(function, function) if type(function) is _BUILTIN else function


class Runner:
    """Stands in for a builtin that runs text. It is not a function, which as a class
    attribute would become a method."""

    def __init__(self, original):
        self.__name__ = self.__qualname__ = original.__name__
        self.__doc__ = original.__doc__
        self.__module__ = original.__module__

    def __repr__(self):
        return "<built-in function %s>" % self.__name__

    def __reduce__(self):
        return eval, (self.__name__,)  # unpickles as the builtin itself


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
    """Returns what exec or eval has to run, and its globals and locals, which are the
    caller's by default."""
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
    type(_own).__call__.__qualname__ = _original.__name__  # for the TypeError of wrong arguments
