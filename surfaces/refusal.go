package surfaces

// ErrorType groups codes by how a caller can react to them.
type ErrorType string

// The error types of the contract.
const (
	TypeValidation     ErrorType = "validation"
	TypeConsent        ErrorType = "consent"
	TypeUnavailable    ErrorType = "unavailable"
	TypeStateLost      ErrorType = "state_lost"
	TypeOutcomeUnknown ErrorType = "outcome_unknown"
	TypeEnvironment    ErrorType = "environment"
	TypeTimeout        ErrorType = "timeout"
	TypeKilled         ErrorType = "killed"
	TypeException      ErrorType = "exception"
	TypeAuth           ErrorType = "auth"
	TypeInternal       ErrorType = "internal"
)

// Code is the stable name of a kind of refusal or failure.
type Code string

// The codes of the contract.
const (
	CodeInvalidArgument       Code = "invalid_argument"
	CodeUnsupportedLanguage   Code = "unsupported_language"
	CodeUnsupportedStateMode  Code = "unsupported_state_mode"
	CodeUnsupportedSurface    Code = "unsupported_surface"
	CodeStatelessWithSession  Code = "stateless_with_session"
	CodeReadOnlyNoSession     Code = "read_only_without_session"
	CodeSessionNotFound       Code = "session_not_found"
	CodeSessionMismatch       Code = "session_mismatch"
	CodeSessionLimit          Code = "session_limit"
	CodeVenvNotFound          Code = "venv_not_found"
	CodeVenvWithShell         Code = "venv_with_shell"
	CodeRemoteWithSession     Code = "remote_with_session"
	CodeMachineRequired       Code = "machine_required"
	CodeMachineNotLinked      Code = "machine_not_linked"
	CodeMachineWithLocal      Code = "machine_with_local"
	CodeAtomicWithoutStateful Code = "atomic_without_stateful"

	CodeConsentDenied  Code = "consent_denied"
	CodeConsentTimeout Code = "consent_timeout"

	CodeMachineUnreachable Code = "machine_unreachable"
	CodeOwnerUnreachable   Code = "owner_unreachable"
	CodeNoCapacity         Code = "no_capacity"
	CodeNoQuorum           Code = "no_quorum"

	CodeSessionLost    Code = "session_lost"
	CodeOutcomeUnknown Code = "outcome_unknown"

	CodeBuildFailed  Code = "build_failed"
	CodeBuildTimeout Code = "build_timeout"

	CodeTimeout     Code = "timeout"
	CodeSegfault    Code = "segfault"
	CodeOutOfMemory Code = "out_of_memory"
	CodeKilled      Code = "killed"
	CodeStopped     Code = "stopped"
	CodeException   Code = "exception"

	CodeUnauthenticated Code = "unauthenticated"
	CodeForbidden       Code = "forbidden"
	CodeInternal        Code = "internal"
)

var typeOfCode = map[Code]ErrorType{
	CodeConsentDenied: TypeConsent, CodeConsentTimeout: TypeConsent,
	CodeMachineUnreachable: TypeUnavailable, CodeOwnerUnreachable: TypeUnavailable,
	CodeNoCapacity: TypeUnavailable, CodeNoQuorum: TypeUnavailable,
	CodeSessionLost: TypeStateLost, CodeOutcomeUnknown: TypeOutcomeUnknown,
	CodeBuildFailed: TypeEnvironment, CodeBuildTimeout: TypeEnvironment,
	CodeTimeout: TypeTimeout, CodeSegfault: TypeKilled, CodeOutOfMemory: TypeKilled,
	CodeKilled: TypeKilled, CodeStopped: TypeKilled, CodeException: TypeException,
	CodeUnauthenticated: TypeAuth, CodeForbidden: TypeAuth, CodeInternal: TypeInternal,
}

// Type returns the error type of a code. The default is TypeValidation.
func (c Code) Type() ErrorType {
	if t, ok := typeOfCode[c]; ok {
		return t
	}
	return TypeValidation
}

// Refusal says why a call was not run and how to correct it. A refused call has run nothing
// and changed nothing. A Refusal is an error that errors.As finds.
type Refusal struct {
	Code Code
	// Message is one sentence that quotes the values received.
	Message string
	// Suggestion names the arguments to change, drop or add. Following it corrects all faults.
	Suggestion string
	// Fix is nil if the caller has to choose or know something.
	Fix *Fix
	// RetryAfterS is how many seconds to wait before sending the same call again; 0 if
	// waiting does not help.
	RetryAfterS float64
	// At holds the coordinates that could be read from the arguments.
	At Coordinates
	// HTTP is the status code of the response if it does not follow from Code, as for a body
	// that is too large; else 0. See HTTPStatus.
	HTTP int

	plan *plan
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }
