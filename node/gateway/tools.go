package gateway

import "context"

// tool makes the handler of a tool that answers with one object.
func tool[T any](call func(Service, context.Context, Caller, []byte) (T, error)) func(*exchange) error {
	return func(x *exchange) error {
		body, release, err := x.read()
		if err != nil {
			return err
		}
		defer release()
		answer, err := call(x.g.svc, x.ctx, x.caller, body)
		if err != nil {
			return err
		}
		return x.json(answer)
	}
}

func listSessions(s Service, ctx context.Context, who Caller, body []byte) (SessionList, error) {
	list, err := s.ListSessions(ctx, who, body)
	list.Sessions = notNil(list.Sessions)
	return list, err
}
