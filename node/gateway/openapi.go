package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// object is a JSON object of the API description.
type object = map[string]any

// parameter is a query or header parameter: a non-negative integer, or a text.
type parameter struct {
	name, in, doc string
	text          bool
}

func (p parameter) schema() object {
	if p.text {
		return object{"type": "string"}
	}
	return object{"type": "integer", "minimum": 0}
}

var (
	fromByte    = parameter{name: "from", in: "query", doc: "Stream the call's events from this offset in its output on, in bytes, stdout and stderr counted together."}
	afterEvent  = parameter{name: "after", in: "query", doc: "Resume after the event with this id, as far as the nodes still hold later ones.", text: true}
	lastCursor  = parameter{name: "Last-Event-ID", in: "header", doc: "The id of the last event received; like after, and overrides it.", text: true}
	lastEventID = parameter{name: "Last-Event-ID", in: "header", doc: "The id of the last event received; like from, and overrides it."}
)

const streamDoc = "Server-sent events. " +
	"For calls the id of each event is its offset in the output: started {call_id, node}, stdout {text}, stderr {text}, display, notice {kind, text}, primitive {seq, name, args}, " +
	"clarification {id, question}, notify {text}, and last result, which is a Result. Comments are sent at fixed intervals, so that a dead connection is noticed."

const resultOnly = "A Result that says why the request failed."

// describe generates the OpenAPI 3.1 description from the routes and the Go types of their
// bodies and answers.
func describe(routes []route, version string) []byte {
	s := schemas{}
	s.named(typeOf[surfaces.Result]())
	s.named(typeOf[MeshEvent]())
	for name, schema := range surfaces.Schemas() {
		s[argumentsOf(name)] = schema
	}
	paths := object{}
	for i := range routes {
		r := &routes[i]
		item, ok := paths[r.pattern].(object)
		if !ok {
			item = object{}
			paths[r.pattern] = item
		}
		item[strings.ToLower(r.method)] = s.operation(r)
	}
	doc, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Locus", "version": version,
			"description": "Runs an agent's code. Every unsuccessful answer is a Result with a stable code.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"paths": paths,
		"components": object{
			"schemas":         s,
			"securitySchemes": object{"bearer": object{"type": "http", "scheme": "bearer", "description": "The token of an actor, or of an operator."}},
		},
		"security": []object{{"bearer": []string{}}},
	}, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("gateway: the API description does not encode: %v", err)) // it is made of constants
	}
	return append(doc, '\n')
}

func argumentsOf(tool string) string { return tool + "_arguments" }

func (s schemas) operation(r *route) object {
	op := object{"summary": r.doc, "operationId": operationID(r), "responses": s.responses(r)}
	switch r.access {
	case accessOpen:
		op["security"] = []object{}
	case accessLoopback:
		op["security"] = []object{{}, {"bearer": []string{}}}
	}
	var parameters []object
	for _, segment := range r.segments {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			parameters = append(parameters, object{
				"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true,
				"schema": object{"type": "string", "minLength": 1, "maxLength": maxSegment},
			})
		}
	}
	for _, p := range r.query {
		parameters = append(parameters, object{
			"name": p.name, "in": p.in, "description": p.doc, "schema": p.schema(),
		})
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	if r.tool != "" {
		op["requestBody"] = jsonBody(reference(argumentsOf(r.tool)), r.tool == surfaces.ToolExecute)
	} else if r.body != nil {
		op["requestBody"] = jsonBody(s.of(r.body), r.body.Kind() == reflect.Struct)
	}
	return op
}

func operationID(r *route) string {
	if r.tool != "" {
		return r.tool
	}
	id := strings.ToLower(r.method)
	for _, segment := range r.segments {
		segment = strings.Trim(strings.ReplaceAll(segment, ".", "_"), "{}")
		if segment != "" && segment != "v1" {
			id += "_" + segment
		}
	}
	return id
}

func jsonBody(schema object, required bool) object {
	return object{"required": required, "content": object{kindJSON: object{"schema": schema}}}
}

func (s schemas) responses(r *route) object {
	good := object{}
	for _, kind := range r.kinds {
		switch {
		case kind == kindStream:
			good[kind] = object{"schema": object{"type": "string", "description": streamDoc}}
		case r.answers != nil:
			good[kind] = object{"schema": s.of(r.answers)}
		case kind == kindJSON:
			good[kind] = object{"schema": object{"type": "object"}}
		default:
			good[kind] = object{"schema": object{"type": "string"}}
		}
	}
	responses := object{"200": object{"description": "Done as asked.", "content": good}}
	statuses := append([]int{http.StatusForbidden, http.StatusInternalServerError}, r.refusals...)
	if r.access == accessToken {
		statuses = append(statuses, http.StatusUnauthorized, http.StatusServiceUnavailable)
	}
	if r.access == accessLoopback {
		statuses = append(statuses, http.StatusUnauthorized)
	}
	for _, status := range statuses {
		responses[strconv.Itoa(status)] = object{
			"description": http.StatusText(status) + ". " + resultOnly,
			"content":     object{kindJSON: object{"schema": reference("Result")}},
		}
	}
	return responses
}
