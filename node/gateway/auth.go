package gateway

import (
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// maxToken bounds a bearer token, in bytes.
const maxToken = 4 << 10

// authenticate identifies the caller. The gateway compares no secrets itself: the Service
// looks the token up, and its timing must not depend on the token.
func (x *exchange) authenticate() error {
	token, fault := bearer(x.r.Header.Values("Authorization"))
	if fault != "" {
		return &surfaces.Refusal{
			Code: surfaces.CodeUnauthenticated, Message: fault,
			Suggestion: "Send the header Authorization: Bearer TOKEN with the token of an actor.",
		}
	}
	caller, err := x.g.svc.Authenticate(x.ctx, token)
	if err != nil {
		return err
	}
	x.caller = caller
	return nil
}

// bearer takes the token from the Authorization headers, or says what is wrong with them
// without quoting them.
func bearer(headers []string) (token, fault string) {
	switch len(headers) {
	case 0:
		return "", "no bearer token was given"
	case 1:
	default:
		return "", "several Authorization headers were given"
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimLeft(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", "the Authorization header has no bearer token"
	case token == "":
		return "", "the bearer token is empty"
	case len(token) > maxToken:
		return "", "the bearer token is too long to be one"
	case strings.ContainsFunc(token, notInToken):
		return "", "the bearer token has characters that no token has"
	}
	return token, ""
}

// notInToken reports whether RFC 6750 excludes a character from tokens.
func notInToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/=", r))
}
