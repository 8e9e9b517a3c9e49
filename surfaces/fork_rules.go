package surfaces

import (
	"fmt"
	"slices"
	"strconv"
)

// checkNewName checks that the name of a fork is not in use.
func checkNewName(d *draft) {
	name, ok := d.text("new_name")
	if _, taken := d.view.SessionNamed(name); ok && taken {
		d.fault(CodeInvalidArgument, "new_name "+quote(name)+" is the name of another session", "new_name")
		d.set("new_name", d.view.freeName(name))
	}
}

// checkForkLimit refuses a fork that would exceed the limit of sessions. Validation goes on
// as if the session that it tells the caller to close were closed.
func checkForkLimit(d *draft) {
	if d.tool.Name != ToolFork || !d.view.AtLimit() {
		return
	}
	d.fault(CodeSessionLimit, fmt.Sprintf("the copy would be a new session, and the limit of %d is reached", d.view.limit()))
	name, _ := d.text("session_name")
	source, _ := d.view.SessionNamed(name)
	if id, ok := d.integer("session_id"); ok && name == "" {
		source.Key = d.selectorKey(id)
	}
	rest := *d.view
	rest.Sessions = slices.DeleteFunc(slices.Clone(rest.Sessions), func(s SessionItem) bool { return s.Key == source.Key })
	oldest, ok := rest.LeastRecentlyUsed()
	if !ok {
		d.prerequisites = append(d.prerequisites, "have the limit raised, because the session to copy is the only one")
		return
	}
	d.prerequisites = append(d.prerequisites, "end the least recently used session with close_session, which is "+describe(oldest))
	rest.Sessions = slices.DeleteFunc(slices.Clone(d.view.Sessions), func(s SessionItem) bool { return s.Key == oldest.Key })
	d.view = &rest
}

// freeName returns the first of name-2, name-3, ... that no session has.
func (v *View) freeName(name string) string {
	for n := 2; ; n++ {
		suffix := "-" + strconv.Itoa(n)
		runes := []rune(name)
		candidate := string(runes[:min(len(runes), MaxName-len(suffix))]) + suffix
		if _, taken := v.SessionNamed(candidate); !taken {
			return candidate
		}
	}
}
