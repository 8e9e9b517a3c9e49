package surfaces

import "fmt"

// checkVenv checks the environment.
func checkVenv(d *draft) {
	if !d.present("venv_id") {
		return
	}
	id, usable := d.integer("venv_id")
	if d.language().IsShell() {
		if usable {
			d.fault(CodeVenvWithShell, fmt.Sprintf("venv_id %d was given with language %s, and only python has environments",
				id, quote(d.language())), "venv_id", "language")
		}
		d.drop("venv_id")
		return
	}
	if _, ok := d.view.Venv(id); ok && usable {
		return
	}
	if usable {
		d.fault(CodeVenvNotFound, fmt.Sprintf("venv_id %d does not exist", id), "venv_id")
	}
	d.noteVenvs()
	if name, ok := d.text("session_name"); ok {
		if s, ok := d.view.SessionNamed(name); ok && s.Key.Language == Python && d.reachable(s) {
			d.setVenv(s.Key.Venv)
			return
		}
	}
	if len(d.view.Venvs) == 0 {
		d.drop("venv_id")
		return
	}
	ids := make([]any, len(d.view.Venvs))
	for i, e := range d.view.Venvs {
		ids[i] = e.ID
	}
	// A program written for one environment is never run in another on a guess.
	d.choose("venv_id", ids, false)
}

func (d *draft) setVenv(id int) {
	if id == 0 {
		d.drop("venv_id")
		return
	}
	d.set("venv_id", id)
}

func (d *draft) noteVenvs() {
	if len(d.view.Venvs) == 0 {
		d.note("no environment is stored")
		return
	}
	shown := make([]string, len(d.view.Venvs))
	for i, e := range d.view.Venvs {
		shown[i] = fmt.Sprintf("%d %s", e.ID, quote(e.Name))
	}
	d.note("the stored environments are " + list(shown, "and"))
}
