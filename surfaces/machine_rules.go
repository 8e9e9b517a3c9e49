package surfaces

import "fmt"

// machineElsewhere reports whether the named machine is linked at any served place.
func (d *draft) machineElsewhere() bool {
	_, ok := d.machineAnywhere()
	return ok
}

// machineAnywhere finds the named machine at any served place.
func (d *draft) machineAnywhere() (MachineItem, bool) {
	name, ok := d.text("machine")
	if !ok {
		return MachineItem{}, false
	}
	for _, m := range d.view.Machines {
		if m.Name == name && m.Place != Local && d.view.ServesPlace(m.Place) {
			return m, true
		}
	}
	return MachineItem{}, false
}

// checkMachine determines the linked machine of the call.
func checkMachine(d *draft) {
	if d.place() == Local {
		checkLocalMachine(d)
		return
	}
	linked := d.view.MachinesAt(d.place())
	name, ok := d.text("machine")
	switch {
	case ok:
		if m, ok := d.view.Machine(d.place(), name); ok {
			d.linked = &m
			return
		}
		d.fault(CodeMachineNotLinked, fmt.Sprintf("machine %s is not linked for surface %s", quote(name), quote(string(d.place()))), "machine", "surface")
		d.noteMachines(linked)
		if m, ok := d.machineAnywhere(); ok {
			d.set("surface", string(m.Place))
			return
		}
		if near, ok := nearestName(name, machineNames(linked)); ok {
			d.set("machine", near)
			return
		}
		// Code for one machine is never sent to another on a guess.
		d.choose("machine", anyOf(machineNames(linked)), false)
	case len(linked) == 1:
		d.drop("machine")
		d.linked = &linked[0]
	case len(linked) > 1:
		if !d.unusable["machine"] {
			d.fault(CodeMachineRequired, fmt.Sprintf("%d machines are linked for surface %s and no machine was named", len(linked), quote(string(d.place()))), "machine", "surface")
		}
		d.noteMachines(linked)
		if online := onlineOf(linked); len(online) == 1 && !d.unusable["machine"] {
			d.set("machine", online[0])
			return
		}
		d.choose("machine", anyOf(machineNames(linked)), false)
	}
}

func checkLocalMachine(d *draft) {
	name, ok := d.text("machine")
	if !ok {
		delete(d.unusable, "machine")
		return
	}
	d.fault(CodeMachineWithLocal, fmt.Sprintf("machine %s was given with surface \"local\"", quote(name)), "machine", "surface")
	if m, ok := d.machineAnywhere(); ok && !d.given("surface") && d.localOnly() == nil {
		d.set("surface", string(m.Place))
		return
	}
	d.drop("machine")
}

func (d *draft) noteMachines(linked []MachineItem) {
	if len(linked) == 0 {
		return
	}
	shown := make([]string, len(linked))
	for i, m := range linked {
		shown[i] = quote(m.Name)
		if !m.Online {
			shown[i] += " (not connected)"
		}
	}
	d.note("the machines linked there are " + list(shown, "and"))
}

func machineNames(linked []MachineItem) []string {
	out := make([]string, len(linked))
	for i, m := range linked {
		out[i] = m.Name
	}
	return out
}

func onlineOf(linked []MachineItem) []string {
	var out []string
	for _, m := range linked {
		if m.Online {
			out = append(out, m.Name)
		}
	}
	return out
}
