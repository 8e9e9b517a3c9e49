package gateway

// MachineList answers GET /v1/machines.
type MachineList struct {
	Machines []MachineInfo `json:"machines"`
}

var ownerQuery = parameter{name: "actor", in: "query", doc: "Whose machines; only operators may name another actor than themselves, and are shown all without it.", text: true}

// machineRoutes are the routes of linked machines.
func machineRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v1/machines", handle: (*exchange).listMachines, answers: typeOf[MachineList](), query: []parameter{ownerQuery}, doc: "The linked machines: whose, what they have, whether they are connected, what their owners allow."},
		{method: "DELETE", pattern: "/v1/machines/{name}", handle: (*exchange).unlinkMachine, answers: typeOf[MachineInfo](), refusals: []int{404, 503}, doc: "Take a machine out of the mesh, at once and for good. By its id, or one of the caller's own by its name."},
	}
}

func (x *exchange) listMachines() error {
	list, err := x.g.svc.Machines(x.ctx, x.caller, x.r.URL.Query().Get(ownerQuery.name))
	return reply(x, MachineList{Machines: notNil(list)}, err)
}

func (x *exchange) unlinkMachine() error {
	gone, err := x.g.svc.UnlinkMachine(x.ctx, x.caller, x.params["name"])
	return reply(x, gone, err)
}
