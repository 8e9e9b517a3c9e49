package registry

// PutServer stores a primitive server of an actor, replacing one of the same name. Its fields
// are those of PrimitiveServer; either Command or URL is set.
type PutServer struct {
	Proposal `json:"-"`
	Actor    string            `json:"actor"`
	Name     string            `json:"name"`
	Command  []string          `json:"command,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	URL      string            `json:"url,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Allow    []string          `json:"allow,omitempty"`
}

// ServerResult is the result of a command about a primitive server.
type ServerResult string

const (
	// ServerStored: the server is new.
	ServerStored ServerResult = "stored"
	// ServerReplaced: there was one of that name.
	ServerReplaced ServerResult = "replaced"
	// ServerNoActor: the actor does not exist or has ended.
	ServerNoActor ServerResult = "no_actor"
	// ServerLimit: the actor has MaxServers already.
	ServerLimit ServerResult = "limit"
	// ServerRemoved: it was removed.
	ServerRemoved ServerResult = "removed"
	// ServerNotFound: the actor has no such server.
	ServerNotFound ServerResult = "not_found"
)

// ServerOutcome answers PutServer and RemoveServer.
type ServerOutcome struct {
	Result ServerResult `json:"result"`
}

func (PutServer) kind() kind { return kindPutServer }

func (c PutServer) bounds() error {
	oneWay := (len(c.Command) > 0) != (c.URL != "")
	texts := len(c.Command) <= MaxServerTexts && len(c.Allow) <= MaxServerTexts
	for i, argument := range c.Command {
		texts = texts && isText(argument, MaxServerText) && (i > 0 || argument != "")
	}
	for _, name := range c.Allow {
		texts = texts && isToken(name, maxText)
	}
	return checkBounds(oneWay, texts, isToken(c.Actor, maxText), isIdentifier(c.Name), isText(c.URL, maxURL), isSettings(c.Env), isSettings(c.Headers))
}

func (c PutServer) apply(t tables, m moment) any {
	if a := t.actor(c.Actor); a == nil || a.Ended() {
		return ServerOutcome{ServerNoActor}
	}
	out := ServerOutcome{ServerStored}
	if t.server(c.Actor, c.Name) != nil {
		out = ServerOutcome{ServerReplaced}
	} else if len(t.serversOf(c.Actor)) >= MaxServers {
		return ServerOutcome{ServerLimit}
	}
	s := PrimitiveServer{
		Actor: c.Actor, Name: c.Name, Command: c.Command, Env: c.Env, URL: c.URL, Headers: c.Headers, Allow: c.Allow, CreatedAt: m.at,
	}.clone()
	t.put(tableServers, &s)
	return out
}

// RemoveServer removes a primitive server of an actor.
type RemoveServer struct {
	Proposal `json:"-"`
	Actor    string `json:"actor"`
	Name     string `json:"name"`
}

func (RemoveServer) kind() kind { return kindRemoveServer }

func (c RemoveServer) bounds() error {
	return checkBounds(isToken(c.Actor, maxText), isIdentifier(c.Name))
}

func (c RemoveServer) apply(t tables, _ moment) any {
	have := t.server(c.Actor, c.Name)
	if have == nil {
		return ServerOutcome{ServerNotFound}
	}
	t.remove(tableServers, have)
	return ServerOutcome{ServerRemoved}
}
