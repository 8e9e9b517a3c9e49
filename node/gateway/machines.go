package gateway

// MachineList answers GET /v1/machines.
type MachineList struct {
	Machines []MachineInfo `json:"machines"`
}

var ownerQuery = parameter{name: "actor", in: "query", doc: "The owner. Only operators may name another actor; without a name they get all machines, others their own.", text: true}

// machineRoutes are the routes of linked machines.
func machineRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v1/machines", handle: (*exchange).listMachines, answers: typeOf[MachineList](), query: []parameter{ownerQuery}, doc: "The linked machines with their owners, languages, connection states and consent."},
		{method: "DELETE", pattern: "/v1/machines/{name}", handle: (*exchange).unlinkMachine, answers: typeOf[MachineInfo](), refusals: []int{404, 503}, doc: "Remove a machine at once and for good. By id; the caller's own also by name."},
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
