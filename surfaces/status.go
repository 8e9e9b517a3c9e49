package surfaces

// HTTP status codes, repeated here so that the package does not import net/http.
const (
	httpOK            = 200
	httpUnauthorized  = 401
	httpForbidden     = 403
	httpNotFound      = 404
	httpConflict      = 409
	httpTooLarge      = 413
	httpUnprocessable = 422
	httpInternal      = 500
	httpUnavailable   = 503
)

// HTTPStatus returns the status code of the response that carries a result. It is 200 for
// every call that ran, whatever its code did.
func HTTPStatus(res Result) int {
	if res.http != 0 {
		return res.http
	}
	if res.Code == nil {
		return httpOK
	}
	switch res.Code.Type() {
	case TypeValidation:
		return httpUnprocessable
	case TypeAuth:
		if *res.Code == CodeForbidden {
			return httpForbidden
		}
		return httpUnauthorized
	case TypeUnavailable:
		return httpUnavailable
	case TypeInternal:
		return httpInternal
	default:
		return httpOK
	}
}

// The exit statuses of the command line.
const (
	ExitOK          = 0 // it went well
	ExitCodeFailed  = 1 // the code raised, or its process died
	ExitRefused     = 2 // refused or misused
	ExitUnavailable = 3 // nothing could run it, or a bug in Locus
	ExitTimeout     = 4 // the deadline passed
	ExitLost        = 5 // the state is lost or the outcome unknown
)

// ExitStatus returns the exit status of a command that ends with a result.
func ExitStatus(res Result) int {
	if res.Code == nil {
		return ExitOK
	}
	switch res.Code.Type() {
	case TypeException, TypeKilled:
		return ExitCodeFailed
	case TypeTimeout:
		return ExitTimeout
	case TypeStateLost, TypeOutcomeUnknown:
		return ExitLost
	case TypeUnavailable, TypeEnvironment, TypeInternal:
		return ExitUnavailable
	default:
		return ExitRefused
	}
}
