package python_test

import (
	"strings"
	"testing"
)

func TestAwait(t *testing.T) {
	s := newHouse(t).session()
	s.must("import asyncio\nasync def main(): await asyncio.sleep(0.001); return 5")
	s.expect("await main()", "5")
	s.expect("asyncio.run(main())", "5")
	s.expect("await main()", "5")
	s.expect("a = asyncio.run(main())\nb = await main()\na + b", "10")
	s.expect("[x async for x in agen()] if False else [await main() for _ in range(2)]", "[5,5]")
	s.must("import contextvars\nv = contextvars.ContextVar('v')\nv.set('sync')")
	s.must("v.set('async'); await main()")
	s.expect("v.get()", `"async"`)
	s.expect("t = asyncio.create_task(main())\nl = asyncio.get_running_loop()\nawait t", "5")
	s.must("u = asyncio.create_task(main())")
	s.expect("await u", "5")
	s.expect("async with asyncio.Lock():\n    w = 3\nw", "3")
	s.expect("loop = asyncio.get_event_loop_policy().get_event_loop()\nloop.run_until_complete(main())", "5")
	s.expect("await main()\nasyncio.get_running_loop() is loop", "true")
	s.must("loop.close()")
	s.expect("await main()", "5")
}

func TestTasksContinueBetweenCalls(t *testing.T) {
	s := newHouse(t).session()
	o := s.must(`
import asyncio, os
async def tick():
    for i in range(20):
        await asyncio.sleep(0.005)
        print('tick', i)
    open('done', 'w').close()
    await asyncio.sleep(3600)
task = asyncio.get_event_loop_policy().get_event_loop().create_task(tick())
`)
	// Nothing calls the session while the task works.
	eventually(t, "the task goes on", func() bool { return strings.Contains(o.stdout(), "tick 19\n") })
	later := s.must("print('mine'); os.path.exists('done')")
	if later.stdout() != "mine\n" {
		t.Errorf("a later call's output is %q", later.stdout())
	}
	eventually(t, "the file", func() bool { return s.must("os.path.exists('done')").result() == "true" })
}

func TestStoppingTheLoopIsAnErrorOfTheCall(t *testing.T) {
	s := newHouse(t).session()
	o := s.run("import asyncio\nasyncio.get_running_loop().stop()\nawait asyncio.sleep(0.01)\nawait asyncio.sleep(60)")
	if o.exception().Type != "RuntimeError" {
		t.Fatalf("got %+v, want a RuntimeError", o.exception())
	}
	s.expect("await asyncio.sleep(0, 3)", "3")
	s.run("asyncio.get_event_loop().stop()")
	s.expect("await asyncio.sleep(0.01, 4)", "4")
}
