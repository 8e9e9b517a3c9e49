import sys
import os
i, o = map(int, sys.argv[1:3])
if os.name == "nt":
    import msvcrt
    i, o = msvcrt.open_osfhandle(i, os.O_RDONLY), msvcrt.open_osfhandle(o, 0)
with open(i, "rb", buffering=0, closefd=False) as f:
    def take(n):
        b = b""
        while len(b) < n:
            p = f.read(n - len(b))
            if not p:
                os._exit(0)
            b += p
        return b
    text = take(int.from_bytes(take(4), "little"))
import json
b = json.loads(text)
s = {"__name__": "boot"}
exec(compile(b["boot"], "<locus>/boot.py", "exec"), s)
l = s["Bundle"](b["modules"])
sys.meta_path.insert(0, l)
from importlib import import_module
main = import_module("locus_worker." + b["main"])
sys.meta_path.remove(l)
for n in [n for n in sys.modules if n.partition(".")[0] == s["PACKAGE"]]:
    del sys.modules[n]
main.serve(i, o, bytes.fromhex(b["token"]))
