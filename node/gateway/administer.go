package gateway

// NewToken is the body of POST /v1/tokens. Role is node, link for a person's machine, or vm
// for a machine kept for an agent. TTLS is the token's life in seconds: 900 if 0, at most a
// day. Uses is how often it can be used: once if 0. Owner is the actor whose code a machine
// runs: the caller if empty.
type NewToken struct {
	Role   string            `json:"role"`
	Owner  string            `json:"owner,omitempty"`
	TTLS   float64           `json:"ttl_s,omitempty"`
	Uses   int               `json:"uses,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// TokenList answers GET /v1/tokens.
type TokenList struct {
	Tokens []TokenInfo `json:"tokens"`
}

// Draining is the body of POST /v1/nodes/{id}/drain.
type Draining struct {
	Draining bool `json:"draining"`
}

// Labels is the body of POST /v1/nodes/{id}/labels.
type Labels struct {
	Labels map[string]string `json:"labels"`
}

// RotationStep is the body of POST /v1/authority: begin, advance or rollback.
type RotationStep struct {
	Step string `json:"step"`
}

func (x *exchange) createToken() error {
	return handleBody(x, `{"role": "node"}`, func(want NewToken) (TokenInfo, error) {
		return x.g.svc.CreateToken(x.ctx, x.caller, want)
	})
}

func (x *exchange) listTokens() error {
	list, err := x.g.svc.Tokens(x.ctx, x.caller)
	return reply(x, TokenList{Tokens: notNil(list)}, err)
}

func (x *exchange) revokeToken() error {
	gone, err := x.g.svc.RevokeToken(x.ctx, x.caller, x.params["id"])
	return reply(x, gone, err)
}

func (x *exchange) drainNode() error {
	return handleBody(x, `{"draining": true}`, func(d Draining) (NodeInfo, error) {
		return x.g.svc.DrainNode(x.ctx, x.caller, x.params["id"], d.Draining)
	})
}

func (x *exchange) labelNode() error {
	return handleBody(x, `{"labels": {"zone": "a"}}`, func(l Labels) (NodeInfo, error) {
		return x.g.svc.LabelNode(x.ctx, x.caller, x.params["id"], l.Labels)
	})
}

func (x *exchange) removeNode() error {
	gone, err := x.g.svc.RemoveNode(x.ctx, x.caller, x.params["id"])
	return reply(x, gone, err)
}

func (x *exchange) authority() error {
	info, err := x.g.svc.Authority(x.ctx, x.caller)
	return reply(x, info.whole(), err)
}

func (x *exchange) rotateAuthority() error {
	return handleBody(x, `{"step": "begin"}`, func(r RotationStep) (AuthorityInfo, error) {
		info, err := x.g.svc.RotateAuthority(x.ctx, x.caller, r.Step)
		return info.whole(), err
	})
}

// whole replaces null lists by empty ones.
func (a AuthorityInfo) whole() AuthorityInfo {
	a.Roots, a.Holders, a.Waiting = notNil(a.Roots), notNil(a.Holders), notNil(a.Waiting)
	return a
}
