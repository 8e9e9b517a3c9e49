package gateway

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/locusrun/locus/node/gateway/dashboard"
	"github.com/locusrun/locus/surfaces"
)

// access says who may use a route.
type access uint8

const (
	accessToken    access = iota // everybody with a token
	accessOpen                   // everybody
	accessLoopback               // programs on this machine, and everybody with a token
)

// pool is the set of slots that a route's requests use.
type pool uint8

const (
	poolControls pool = iota
	poolCalls
	poolFree
	poolOwn // the handler chooses the pool
)

// Content types of answers.
const (
	kindJSON   = "application/json"
	kindStream = "text/event-stream"
	kindText   = "text/plain; charset=utf-8"
	kindHTML   = "text/html; charset=utf-8"
	kindScript = "text/javascript; charset=utf-8"
	kindStyle  = "text/css; charset=utf-8"
	kindImage  = "image/svg+xml"
)

// route is one row of the table from which the router and the API description are made.
type route struct {
	method, pattern string
	access          access
	pool            pool
	handle          func(*exchange) error

	doc string
	// tool is the name of a tool; it determines the schema of the body.
	tool string
	// body is the type of the body of other routes; nil if there is none.
	body reflect.Type
	// answers is the type of a successful answer; nil if that is not a JSON object.
	answers reflect.Type
	// kinds lists the content types of a successful answer.
	kinds []string
	// query documents the query and header parameters.
	query []parameter
	// refusals lists the statuses of refusals besides those of every route.
	refusals []int

	segments []string // of the pattern, split once
}

// name is the route's name in logs and metrics.
func (r *route) name() string { return r.method + " " + r.pattern }

// table lists all routes.
func (g *Gateway) table() []route {
	routes := []route{
		{method: "GET", pattern: "/", access: accessOpen, pool: poolFree, handle: (*exchange).dashboard, kinds: []string{kindHTML}, doc: "The dashboard: a web page with the state of the mesh, for a token that is typed in."},
		{method: "GET", pattern: "/" + dashboard.AssetPrefix + "{file}", access: accessOpen, pool: poolFree, handle: (*exchange).dashboard, kinds: []string{kindScript, kindStyle, kindImage}, refusals: []int{404}, doc: "The dashboard's assets."},
		{method: "GET", pattern: "/healthz", access: accessOpen, pool: poolFree, handle: (*exchange).healthz, answers: typeOf[Health](), refusals: []int{503}, doc: "Whether the node is alive."},
		{method: "GET", pattern: "/readyz", access: accessOpen, pool: poolFree, handle: (*exchange).readyz, answers: typeOf[Health](), refusals: []int{503}, doc: "Whether the node can run a program; it runs one to find out."},
		{method: "GET", pattern: "/metrics", access: accessLoopback, pool: poolFree, handle: (*exchange).showMetrics, kinds: []string{kindText}, doc: "The metrics in Prometheus format. Programs on the same machine need no token."},
		{method: "GET", pattern: "/openapi.json", access: accessOpen, pool: poolFree, handle: (*exchange).openapi, kinds: []string{kindJSON}, doc: "This description."},

		{method: "POST", pattern: "/v1/tools/" + surfaces.ToolExecute, pool: poolCalls, handle: (*exchange).executeCode, tool: surfaces.ToolExecute,
			answers: typeOf[surfaces.Result](), kinds: []string{kindJSON, kindStream}, query: []parameter{lastEventID}, refusals: []int{409, 413, 415, 422, 503}},
		toolRoute(surfaces.ToolList, tool(listSessions), typeOf[SessionList]()),
		toolRoute(surfaces.ToolInspect, tool(Service.InspectState), typeOf[Inspection]()),
		toolRoute(surfaces.ToolClose, tool(Service.CloseSession), typeOf[Closed]()),
		toolRoute(surfaces.ToolReset, tool(Service.ResetSession), typeOf[SessionInfo]()),
		toolRoute(surfaces.ToolFork, tool(Service.ForkSession), typeOf[SessionInfo]()),

		{method: "GET", pattern: "/v1/executions", handle: (*exchange).listExecutions, answers: typeOf[ExecutionList](), query: []parameter{statusQuery, beforeQuery, limitQuery}, refusals: []int{422}, doc: "The actor's calls that are still kept, newest first."},
		{method: "GET", pattern: "/v1/executions/{call_id}", handle: (*exchange).showExecution, answers: typeOf[surfaces.Result](), kinds: []string{kindJSON, kindStream},
			query: []parameter{fromByte, lastEventID}, refusals: []int{404, 422, 503}, doc: "The call's present result; with from or Accept: text/event-stream its events from an offset in its output on."},
		{method: "GET", pattern: "/v1/executions/{call_id}/primitives", handle: (*exchange).listPrimitives, answers: typeOf[PrimitiveList](), refusals: []int{404},
			doc: "The primitives that the call's code has used so far, each with its outcome: ok, the type of an error, or running."},
		{method: "POST", pattern: "/v1/executions/{call_id}/primitives/{seq}", handle: (*exchange).answerPrimitive, body: typeOf[PrimitiveAnswer](), answers: typeOf[Delivered](),
			refusals: []int{404, 409, 413, 415, 422}, doc: "Answer a primitive event with a result or an error. The first answer counts; a different one is a conflict."},

		{method: "GET", pattern: "/v1/status", handle: (*exchange).status, answers: typeOf[StatusInfo](), doc: "The node and its mesh."},
		{method: "GET", pattern: "/v1/nodes", handle: (*exchange).nodes, answers: typeOf[NodeList](), doc: "The nodes of the mesh."},
		{method: "POST", pattern: "/v1/nodes/{id}/drain", handle: (*exchange).drainNode, body: typeOf[Draining](), answers: typeOf[NodeInfo](), refusals: []int{404, 413, 415, 422, 503}, doc: "Set whether a node takes new sessions. For operators."},
		{method: "POST", pattern: "/v1/nodes/{id}/labels", handle: (*exchange).labelNode, body: typeOf[Labels](), answers: typeOf[NodeInfo](), refusals: []int{404, 413, 415, 422, 503}, doc: "Set a node's labels; without any, the node's own configuration holds. For operators."},
		{method: "DELETE", pattern: "/v1/nodes/{id}", handle: (*exchange).removeNode, answers: typeOf[NodeInfo](), refusals: []int{404, 422, 503}, doc: "Remove an expired node from the mesh for good. For operators."},
		{method: "GET", pattern: "/v1/tokens", handle: (*exchange).listTokens, answers: typeOf[TokenList](), doc: "The join tokens. For operators."},
		{method: "POST", pattern: "/v1/tokens", handle: (*exchange).createToken, body: typeOf[NewToken](), answers: typeOf[TokenInfo](), refusals: []int{413, 415, 422, 503}, doc: "Make a join token. Only this answer shows it. For operators."},
		{method: "DELETE", pattern: "/v1/tokens/{id}", handle: (*exchange).revokeToken, answers: typeOf[TokenInfo](), refusals: []int{404, 503}, doc: "Revoke a join token. Members that joined with it stay. For operators."},
		{method: "GET", pattern: "/v1/authority", handle: (*exchange).authority, answers: typeOf[AuthorityInfo](), doc: "The mesh's certificate authority. For operators."},
		{method: "POST", pattern: "/v1/authority", handle: (*exchange).rotateAuthority, body: typeOf[RotationStep](), answers: typeOf[AuthorityInfo](), refusals: []int{413, 415, 422, 503}, doc: "Take one step of a rotation of the authority's root: begin, advance or rollback. For operators."},
		{method: "GET", pattern: "/v1/actors", handle: (*exchange).listActors, answers: typeOf[ActorList](), doc: "The actors. For operators."},
		{method: "POST", pattern: "/v1/actors", handle: (*exchange).createActor, body: typeOf[NewActor](), answers: typeOf[ActorInfo](), refusals: []int{413, 415, 422}, doc: "Create an actor and its token. Only this answer shows the token. For operators."},
		{method: "DELETE", pattern: "/v1/actors/{name}", handle: (*exchange).endActor, answers: typeOf[ActorInfo](), refusals: []int{404}, doc: "Revoke an actor's tokens, stop its calls and close its sessions. For operators."},
		{method: "GET", pattern: "/v1/events", pool: poolCalls, handle: (*exchange).events, kinds: []string{kindStream}, query: []parameter{afterEvent, lastCursor}, refusals: []int{422, 503}, doc: "The mesh's events as they happen; the data of each is a MeshEvent. An event dropped stands for missed ones. For operators."},
	}
	routes = append(routes, mcpRoutes()...)
	routes = append(routes, libraryRoutes()...)
	routes = append(routes, machineRoutes()...)
	routes = append(routes, auditRoutes()...)
	for _, a := range actions {
		routes = append(routes, route{
			method: "POST", pattern: "/v1/executions/{call_id}/" + a.name, doc: a.doc,
			handle: func(x *exchange) error { return x.steer(a.name) },
			body:   typeOf[map[string]any](), answers: typeOf[map[string]any](), refusals: []int{404, 413, 415, 422},
		})
	}
	docs := make(map[string]string)
	for _, t := range surfaces.Tools() {
		docs[t.Name] = t.Doc
	}
	for i := range routes {
		r := &routes[i]
		r.segments = strings.Split(r.pattern, "/")
		if r.tool != "" {
			r.doc = docs[r.tool]
		}
		if r.kinds == nil {
			r.kinds = []string{kindJSON}
		}
	}
	return routes
}

func toolRoute(name string, handle func(*exchange) error, answers reflect.Type) route {
	return route{method: http.MethodPost, pattern: "/v1/tools/" + name, tool: name, handle: handle, answers: answers, refusals: []int{413, 415, 422}}
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
