package node_test

import (
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// Two functions call each other, each with another major version of one library.
func TestFunctionsInEnvironments(t *testing.T) {
	w := fresh(t)
	one, two := w.venv(project("one", "urllib3<2", "idna")), w.venv(project("two", "urllib3>=2,<3"))
	needsIndex(t, w.exec(args{"code": "1", "venv_id": one}))
	old := w.put(args{"venv_id": one, "source": `
import urllib3

def sf_old(deep):
    """The old one."""
    return [urllib3.__version__[0]] + (functions.sf_old.sync(deep - 1) if deep else [])
`})
	if *old.VenvID != one {
		t.Errorf("got %+v, want environment %d", old, one)
	}
	w.put(args{"venv_id": two, "source": "import urllib3\nasync def sf_new(deep):\n    return [urllib3.__version__[0]] + (await functions.sf_old(deep - 1) if deep else [])"})
	w.put(args{"venv_id": one, "source": strings.ReplaceAll(old.Source, "functions.sf_old", "functions.sf_new")})
	w.inEveryMode(t, "await functions.sf_new(3)", `["2","1","2","1"]`)
	value(t, w.exec(args{"venv_id": two, "code": "import urllib3; [urllib3.__version__[0], *await functions.sf_old(2)]"}), `["2","1","2","1"]`)
	value(t, w.call("sf_old", args{"args": []int{1}}), `["1","2"]`)

	// Objects of a library that both environments have are passed too, others are not.
	w.put(args{"venv_id": two, "source": "def sf_timeout(x=None):\n    import urllib3\n    return x or urllib3.Timeout(3)"})
	value(t, w.exec(args{"venv_id": two, "code": "(await functions.sf_timeout()).connect_timeout"}), "3")
	w.put(args{"venv_id": one, "source": "import idna\ndef sf_odd(): return idna.IDNAError()"})
	res := code(t, w.exec(args{"venv_id": two, "code": "await functions.sf_odd()"}), surfaces.CodeException)
	if !strings.Contains(res.Exception.Message, "No module named 'idna'") {
		t.Errorf("got %s, want the missing module idna named", show(res))
	}
}

// The client that stores a function is told if its environment cannot be built.
func TestFunctionsInAnEnvironmentThatCannotBeBuilt(t *testing.T) {
	w := fresh(t)
	id := w.venv(project("never", "urllib3==1.26.99999"))
	var refused surfaces.Result
	if status := w.post("/v1/functions", args{"venv_id": id, "source": "def sf_f(): pass"}, &refused); status != 422 || *refused.Code != surfaces.CodeBuildFailed {
		t.Errorf("status %d, want 422: %s", status, show(refused))
	}
	if status := w.post("/v1/functions", args{"venv_id": 9999, "source": "def sf_f(): pass"}, &refused); status != 422 || *refused.Code != surfaces.CodeVenvNotFound {
		t.Errorf("status %d, want 422: %s", status, show(refused))
	}
}
