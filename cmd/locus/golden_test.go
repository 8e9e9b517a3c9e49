package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s\nwant:\n%s", path, got, want)
	}
}

const (
	sessionsBody = `{"sessions":[
{"language":"python","session_id":0,"session_name":null,"venv_id":null,"node":"n1","state":"live","epoch":1,"created_at":"2026-05-01T11:00:00Z","last_used_at":"2026-05-01T11:59:55Z","calls":3,"memory_bytes":13107200,"summary":"x: int","state_lost":false},
{"language":"bash","session_id":2,"session_name":"build","venv_id":null,"node":"n1","state":"busy","epoch":4,"created_at":"2026-04-28T11:00:00Z","last_used_at":"2026-04-28T11:59:55Z","calls":120,"memory_bytes":900,"summary":"cwd /tmp\nforged","state_lost":false}],"limit":20}`
	sessionBody = `{"language":"python","session_id":7,"session_name":"what-if","venv_id":null,"node":"n1","state":"live","epoch":2,"created_at":"2026-05-01T11:00:00Z","last_used_at":"2026-05-01T11:59:00Z","calls":3,"memory_bytes":13107200,"summary":"","state_lost":false}`
	callsBody   = `{"executions":[
{"call_id":"c2","status":"running","code":null,"language":"python","state_mode":"stateful","session_id":3,"session_name":"notes","started_at":"2026-05-01T11:59:00Z","duration_ms":60000,"thought":"load the rows","paused":true},
{"call_id":"c1","status":"failed","code":"timeout","language":"bash","state_mode":"stateless","session_id":null,"session_name":null,"started_at":"2026-05-01T10:00:00Z","duration_ms":1203.5,"paused":false}]}`
	statusBody = `{"node":"n1","cluster":"mesh-1","version":"1.0","started_at":"2026-05-01T10:00:00Z","http":"127.0.0.1:7070","listen":"127.0.0.1:7071","data_dir":"/d","audit":{"head":{"seq":7,"hash":"aa"},"lost":2,"failing":"no space left"},"languages":["python","bash"],"nodes":3,"leader":"n1","sessions":{"live":2,"busy":1},"running":1,"calls_total":99,"memory_bytes":1048576,"draining":false,"memory_available_bytes":8589934592,"memory_pressure":"none","enforced":{"memory":"cgroup","processes":"pid namespace"},"actor":"default","operator":true}`
	nodesBody  = `{"nodes":[
{"id":"node-1f","addr":"127.0.0.1:7072","state":"unreachable","incarnation":4,"labels":{},"voter":true,"leader":false,"draining":false,"sessions":1,"running":0,"languages":["bash"],"version":"1.0","registered_at":"2026-05-01T10:30:00Z"},
{"id":"node-2a","addr":"127.0.0.1:7073","state":"up","incarnation":5,"labels":{},"voter":false,"leader":false,"draining":true,"sessions":2,"running":1,"memory_bytes":41943040,"memory_short":true,"languages":["bash"],"version":"0.9","registered_at":"2026-05-01T11:00:00Z"},
{"id":"n1","addr":"127.0.0.1:7071","state":"up","incarnation":1,"labels":{"zone":"a","disk":"fast"},"voter":true,"leader":true,"draining":false,"sessions":3,"running":1,"memory_bytes":52428800,"languages":["bash"],"version":"1.0","registered_at":"2026-05-01T10:00:00Z"}]}`
	drained    = `{"id":"node-2a","addr":"127.0.0.1:7073","state":"up","labels":{"zone":"b"},"voter":false,"leader":false,"draining":true,"sessions":2,"running":1,"languages":["bash"],"version":"0.9","registered_at":"2026-05-01T11:00:00Z"}`
	tokensBody = `{"tokens":[
{"id":"aaaa","role":"node","issuer":"default","created_at":"2026-05-01T11:58:00Z","expires_at":"2026-05-01T12:13:00Z","uses_left":2,"used":["node-2a"],"labels":{"zone":"a"},"revoked_at":null},
{"id":"bbbb","role":"node","issuer":"ops","created_at":"2026-05-01T11:00:00Z","expires_at":"2026-05-01T11:15:00Z","uses_left":1,"used":[],"revoked_at":null},
{"id":"cccc","role":"node","issuer":"ops","created_at":"2026-05-01T11:00:00Z","expires_at":"2026-05-01T11:15:00Z","uses_left":0,"used":["node-1f"],"revoked_at":null},
{"id":"dddd","role":"node","issuer":"ops","created_at":"2026-05-01T11:00:00Z","expires_at":"2026-05-01T12:30:00Z","uses_left":1,"used":[],"revoked_at":"2026-05-01T11:30:00Z"}]}`
	machinesBody  = `{"machines":[{"id":"link-1","name":"laptop","actor":"default","surface":"user_machine","state":"away","os":"linux","arch":"arm64","version":"1.0","languages":["bash"],"consent":"asks each time","linked_at":"2026-05-01T10:00:00Z","last_seen_at":"2026-05-01T11:50:00Z"}]}`
	authorityBody = `{"phase":"trust_both","roots":["pinone","pintwo"],"holders":["n1","node-1f"],"waiting":["node-2a"]}`
	actorsBody    = `{"actors":[{"name":"default","operator":true,"created_at":"2026-05-01T10:00:00Z","ended_at":null,"sessions":2},{"name":"planner","operator":false,"created_at":"2026-05-01T11:00:00Z","ended_at":null,"sessions":0},{"name":"old","created_at":"2026-04-01T10:00:00Z","ended_at":"2026-04-30T12:00:00Z","sessions":0}]}`
	runningNow    = `{"call_id":"c2","status":"running","stdout":"so far\n","stderr":"","result":null,"state_lost":false,"notice":[{"kind":"clarification","text":"1: which one: a or b?"}]}`
	asked         = `{"call_id":"c9","status":"failed","stdout":"looking\n","stderr":"","result":null,"error":"KeyError: 3","error_type":"exception","code":"exception","exception":{"type":"KeyError","message":"3","traceback":"Traceback (most recent call last):\nKeyError: 3\n","line":1},"state_mode":"read_only","state_lost":false,"display":[],"notice":[]}`
	venvsBody     = `{"venvs":[
{"id":1,"name":"ml","digest":"aa","pyproject":"[project]\nname = \"ml\"\n","locked":true,"built":["n1","node-2a"],"created_by":"planner","created_at":"2026-05-01T11:00:00Z"},
{"id":2,"name":"web","digest":"bb","pyproject":"[project]","locked":false,"built":[],"created_by":"default","created_at":"2026-04-30T12:00:00Z"}]}`
	venvBody      = `{"id":1,"name":"ml","digest":"aa","pyproject":"[project]\nname = \"ml\"\ndependencies = [\"numpy\"] # \u001b[31m\n","locked":true,"built":["n1"],"created_by":"planner","created_at":"2026-05-01T11:00:00Z","created":true}`
	functionBody  = `{"name":"forecast","source":"async def forecast(days: int = 7):\n    return days\n","venv_id":1,"entry":"forecast","signature":"(days: int = 7)","doc":"Tell what comes.\n\nAt length.","async":true,"needs":["load"],"digest":"cc","version":3,"created_by":"planner","created_at":"2026-04-30T12:00:00Z","updated_at":"2026-05-01T11:00:00Z"}`
	functionsBody = `{"functions":[` + functionBody + `,{"name":"load","venv_id":null,"entry":"load","signature":"(path)","doc":"","async":false,"needs":[],"digest":"dd","version":1,"created_by":"planner","created_at":"2026-04-30T12:00:00Z","updated_at":"2026-04-30T12:00:00Z"}]}`
	serverBody    = `{"actor":"planner","name":"files","command":["mcp-server-files","/srv"],"env":["TOKEN"],"allow":["read","list"],"created_at":"2026-05-01T11:00:00Z","state":"running","functions":[{"name":"files.read","read_only":true}]}`
	serversBody   = `{"servers":[` + serverBody + `,{"actor":"planner","name":"web","url":"https://example.com/mcp","headers":["Authorization"],"allow":[],"created_at":"2026-05-01T11:30:00Z","state":"failed","problem":"it does not answer"}]}`
	inspected     = `{"session":` + sessionBody + `,"state":{"variables":[{"name":"x","type":"int","summary":"41","size":28},{"name":"df","type":"DataFrame","summary":"3 rows\nby 2","size":4096}],"functions":["f"],"modules":[],"cwd":"/tmp"}}`
)

func answers() map[string]answer {
	return map[string]answer{
		"POST /v1/tools/list_sessions":     {200, sessionsBody},
		"POST /v1/tools/inspect_state":     {200, inspected},
		"POST /v1/tools/close_session":     {200, `{"closed":true,"reason":"success"}`},
		"POST /v1/tools/reset_session":     {200, sessionBody},
		"POST /v1/tools/fork_session":      {200, sessionBody},
		"GET /v1/executions":               {200, callsBody},
		"GET /v1/executions/c2":            {200, runningNow},
		"GET /v1/executions/c2/primitives": {200, `{"primitives":[{"seq":1,"name":"fs.ls","digest":"d","outcome":"ok","ms":3.25,"replayed":true},{"seq":2,"name":"fs.rm","digest":"d","outcome":"running","ms":1200,"replayed":false}]}`},
		"POST /v1/executions/c2/pause":     {200, `{"call_id":"c2","paused":true}`},
		"POST /v1/executions/c2/resume":    {200, `{"call_id":"c2","paused":false}`},
		"POST /v1/executions/c2/stop":      {200, `{"call_id":"c2","stopping":true}`},
		"POST /v1/executions/c2/interject": {200, `{}`},
		"POST /v1/executions/c2/answer":    {200, `{}`},
		"POST /v1/executions/c2/ask":       {200, `{"result":` + asked + `,"stack":"Traceback (most recent call last):\n  File \"<cell 1>\", line 4, in <module>\n    work()\n","stdout":"so\nfar\n","stderr":""}`},
		"GET /v1/status":                   {200, statusBody},
		"GET /v1/nodes":                    {200, nodesBody},
		"GET /v1/actors":                   {200, actorsBody},
		"GET /v1/machines":                 {200, machinesBody},
		"POST /v1/actors":                  {200, `{"name":"planner","token":"lct_secret","created_at":"2026-05-01T12:00:00Z","ended_at":null,"sessions":0}`},
		"GET /v1/tokens":                   {200, tokensBody},
		"POST /v1/tokens":                  {200, `{"id":"aaaa","token":"locus1.n.secret","role":"node","issuer":"default","created_at":"2026-05-01T12:00:00Z","expires_at":"2026-05-01T12:15:00Z","uses_left":1,"used":[],"revoked_at":null}`},
		"DELETE /v1/tokens/aaaa":           {200, `{"id":"aaaa","role":"node","issuer":"default","created_at":"2026-05-01T11:58:00Z","expires_at":"2026-05-01T12:13:00Z","uses_left":2,"used":[],"revoked_at":"2026-05-01T12:00:00Z"}`},
		"POST /v1/nodes/node-2a/drain":     {200, drained},
		"POST /v1/nodes/node-2a/labels":    {200, drained},
		"DELETE /v1/nodes/node-1f":         {200, `{"id":"node-1f","state":"expired","sessions":0}`},
		"GET /v1/authority":                {200, authorityBody},
		"POST /v1/authority":               {200, authorityBody},
		"GET /v1/venvs":                    {200, venvsBody},
		"POST /v1/venvs":                   {200, venvBody},
		"GET /v1/venvs/1":                  {200, venvBody},
		"DELETE /v1/venvs/1":               {200, venvBody},
		"GET /v1/functions":                {200, functionsBody},
		"POST /v1/functions":               {200, functionBody},
		"GET /v1/functions/forecast":       {200, functionBody},
		"DELETE /v1/functions/forecast":    {200, functionBody},
		"GET /v1/primitives":               {200, serversBody},
		"POST /v1/primitives":              {200, serverBody},
		"DELETE /v1/primitives/files":      {200, serverBody},
		"DELETE /v1/actors/planner":        {200, `{"name":"planner","created_at":"2026-05-01T10:00:00Z","ended_at":"2026-05-01T12:00:00Z","sessions":0}`},
	}
}

// Each verb prints its answer for people and for programs, and sends the right requests.
func TestVerbs(t *testing.T) {
	for name, args := range map[string][]string{
		"sessions": {"sessions"}, "sessions-inspect": {"sessions", "inspect", "what-if", "--detail", "names"},
		"sessions-close": {"sessions", "close", "notes"}, "sessions-reset": {"sessions", "reset", "--session-id", "0", "-l", "bash"},
		"sessions-fork": {"sessions", "fork", "notes", "what-if"}, "sessions-fork-id": {"sessions", "fork", "--session_id", "0", "-l", "python", "what-if"},
		"calls": {"calls"}, "calls-show": {"calls", "show", "c2"}, "calls-pause": {"calls", "pause", "c2"}, "calls-resume": {"calls", "resume", "c2"},
		"calls-stop": {"calls", "stop", "c2"}, "calls-interject": {"calls", "interject", "c2", "hurry up"}, "calls-answer": {"calls", "answer", "--id", "q", "c2", "yes"},
		"calls-ask": {"calls", "ask", "c2", "len(rows)"}, "status": {"status"}, "top": {"top", "--sort", "name"}, "nodes": {"nodes"},
		"token-create": {"token", "create", "--role", "actor", "--name", "planner"}, "token-list": {"token", "list"}, "token-revoke": {"token", "revoke", "planner"},
		"token-create-admin": {"token", "create", "--role", "admin", "--name", "ops"}, "token-revoke-join": {"token", "revoke", "aaaa"},
		"token-create-labels": {"token", "create", "--name", "planner", "--labels", "gpu=yes"},
		"token-create-node":   {"token", "create", "--role", "node", "--ttl", "1h", "--uses", "3", "--labels", "zone=a"},
		"nodes-drain":         {"nodes", "drain", "2a"}, "nodes-label": {"nodes", "label", "node-2a", "zone=b"},
		"nodes-remove": {"nodes", "remove", "node-1", "--yes"}, "venv": {"venv"}, "venv-add": {"venv", "add", "-f", "testdata/pyproject.toml", "--name", "ml"}, "venv-show": {"venv", "show", "1"}, "venv-rm": {"venv", "rm", "1"},
		"fn": {"fn"}, "fn-add": {"fn", "add", "-f", "testdata/forecast.py"}, "fn-search": {"fn", "search", "tell", "days"},
		"fn-show": {"fn", "show", "forecast"}, "fn-rm": {"fn", "rm", "forecast"}, "primitives": {"primitives", "list", "--actor", "planner"},
		"primitives-add":     {"primitives", "add", "files", "--actor", "planner", "--allow", "read", "--allow", "list", "--env", "TOKEN=x=y", "--", "mcp-server-files", "-v", "/srv"},
		"primitives-add-url": {"primitives", "add", "web", "--url", "https://example.com/mcp", "--header", "Authorization=Bearer x"},
		"primitives-rm":      {"primitives", "rm", "files", "--actor", "planner"},
		"authority":          {"authority"}, "authority-rotate": {"authority", "rotate", "begin"},
	} {
		t.Run(name, func(t *testing.T) {
			text := ""
			for _, extra := range [][]string{nil, {"--json"}} {
				n := &fakeNode{answers: answers()}
				s := command(t, n, "")
				all := append(append([]string{}, args...), extra...)
				status := s.a.run(t.Context(), all)
				text += s.transcript(all, status)
				for _, r := range n.requests() {
					text += "sent " + r + "\n"
				}
			}
			golden(t, name, text)
		})
	}
}
