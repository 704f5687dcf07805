package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"hclbench/plain"
	"hclbench/provision"
)

// status is how the API server says no.
type status struct {
	Code    int
	Reason  string // "NotFound", "Forbidden"
	Message string
}

func (s *status) Error() string { return plain.Line(s.Message) }

func readStatus(code int, text []byte) *status {
	s := &status{}
	if json.Unmarshal(text, s) != nil || s.Message == "" {
		s.Message = plain.Cut(plain.Line(string(text)), 1<<10)
	}
	if s.Message == "" {
		s.Message = http.StatusText(code)
	}
	s.Code = code
	return s
}

func hasCode(err error, code int) bool {
	s, ok := errors.AsType[*status](err)
	return ok && s.Code == code
}

func notFound(err error) bool { return hasCode(err, http.StatusNotFound) }

const (
	noAnswer = "its API server %s does not answer: %w: is it on, and is it reachable from here?"
	noLogin  = "it does not let in %s (%w): the credentials may have expired: log in anew, until `%s auth whoami` works"
	noRight  = "%w: ask who runs the cluster for that right, see `%s auth can-i --list -n %s`"
	noQuota  = "%w: a quota of namespace %s is used up: `%s describe quota -n %[2]s` shows it"
	noShare  = "%w: say requests and limits in the host's block, see `%s describe quota -n %s`"
	noPolicy = "%w: see the label pod-security.kubernetes.io/enforce of namespace %s"
	noPlugin = "%w: this command of the kubeconfig gets the credentials of %s: run it by hand, log in anew"
	noHook   = "%w: the cluster asks that webhook before it makes anything: see whether what serves it runs"
	noSpace  = "%w: make it (`%s create namespace %s`), or write create_namespace = true or another namespace in the block"
)

// unreached is the error of an API server that did not answer. The caller's own end is none.
func (s *server) unreached(err error) error {
	switch text := err.Error(); {
	case errors.Is(err, context.Canceled):
		return err
	case strings.Contains(text, "getting credentials"):
		return provision.Fail(s.host, provision.ErrAuth, noPlugin, err, s.login)
	case strings.Contains(text, "x509: "), strings.Contains(text, "tls: "):
		return provision.Fail(s.host, provision.ErrAuth, "%w: see the certificates of %s", err, s.login)
	}
	return provision.Fail(s.host, provision.ErrUnreachable, noAnswer, s.base.Host, err)
}

// refused is what the API server's no means, and what to do.
func (s *server) refused(no *status) error {
	switch {
	case no.Code == http.StatusUnauthorized:
		return provision.Fail(s.host, provision.ErrAuth, noLogin, s.login, no, s.kubectl)
	case no.Code == http.StatusForbidden && strings.Contains(no.Message, "exceeded quota"):
		return provision.Fail(s.host, provision.ErrNoRoom, noQuota, no, s.namespace, s.kubectl)
	case no.Code == http.StatusForbidden && strings.Contains(no.Message, "must specify"):
		return provision.Fail(s.host, provision.ErrForbidden, noShare, no, s.kubectl, s.namespace)
	case no.Code == http.StatusForbidden && strings.Contains(no.Message, "PodSecurity"):
		return provision.Fail(s.host, provision.ErrForbidden, noPolicy, no, s.namespace)
	case no.Code == http.StatusForbidden && strings.Contains(no.Message, "cannot"):
		return provision.Fail(s.host, provision.ErrForbidden, noRight, no, s.kubectl, s.namespace)
	case no.Code == http.StatusNotFound && strings.HasPrefix(no.Message, "namespaces "):
		return provision.Fail(s.host, provision.ErrForbidden, noSpace, no, s.kubectl, s.namespace)
	case no.Code == http.StatusInternalServerError && strings.Contains(no.Message, "calling webhook"):
		return provision.Fail(s.host, provision.ErrForbidden, noHook, no)
	case no.Code >= 500 || no.Code == http.StatusTooManyRequests:
		return provision.Fail(s.host, provision.ErrUnreachable, noAnswer, s.base.Host, no)
	}
	return provision.Fail(s.host, provision.ErrForbidden, "%w", no)
}

// away reports whether an error may be gone when the API server is back.
func away(err error) bool { return errors.Is(err, provision.ErrUnreachable) }

// byHand is a command that shows more.
func (s *server) byHand(format string, args ...any) string {
	return fmt.Sprintf("`%s -n %s %s`", s.kubectl, s.namespace, fmt.Sprintf(format, args...))
}
