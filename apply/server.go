package apply

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/provision"
)

type server struct {
	base  string
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	http  *http.Client
	key   provision.Text      // what it asks for; empty: nothing
	asks  load.Workload       // where its loads go, of an engine that generates nothing; zero: it generates
	shown func(string) string // makes an answer fit to be told
}

// server is the engine's at a URL, as it is place.Reached from its home.
func (e *engine) server(base string) *server {
	return asked(e, newServer(base, e.home(), e.d.Engine.APIKey, e.secrets))
}

// asked is a server that is asked, to see whether it serves, as its loads ask it: an engine for embeddings
// generates nothing.
func asked(e *engine, s *server) *server {
	var asks load.Workload
	for _, c := range e.d.Cells {
		l := c.Load()
		if l == nil || l.Workload.Generates() {
			return s
		}
		asks.Endpoint = l.Workload.Endpoint
	}
	s.asks = asks
	return s
}

// server is the member's own, as it is place.Reached from its host.
func (m *member) server(e *engine) *server {
	return asked(e, newServer(engines.BaseURL(m.Engine), m.at, m.Engine.APIKey, e.secrets))
}

func newServer(base string, from *place.Session, key provision.Text, secrets plain.Secrets) *server {
	s := &server{base: base, dial: from.Conn.Dial, key: key, shown: secrets.Line}
	s.http = &http.Client{
		Transport: &http.Transport{DialContext: s.dial, MaxIdleConnsPerHost: 1},
		// A server must not choose whom this machine asks, with its key.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

func (s *server) close() { s.http.CloseIdleConnections() }

// errNoWay says that the host did not even refuse: it is out of reach, and nothing
// is known of the engine.
var errNoWay = errors.New("the host is out of reach")

func (s *server) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := s.dial(ctx, "tcp", place.Address(s.base))
	if ctx.Err() != nil || provision.OutOfReach(err) {
		return fmt.Errorf("%w: %w", errNoWay, err)
	}
	if err != nil {
		return fmt.Errorf("nothing listens on %s yet", place.Address(s.base))
	}
	return c.Close()
}

// get fetches path and decodes the answer into out, unless that is nil.
func (s *server) get(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return s.do(ctx, "GET", path, nil, out)
}

// read fetches what is at a URL, as it is.
func (s *server) read(ctx context.Context, url string) (text []byte, err error) {
	at := *s
	at.base = url
	err = at.get(ctx, "", &text)
	return text, err
}

func (s *server) do(ctx context.Context, method, path string, in []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(in))
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	key := s.key.Reveal()
	if key != "" {
		req.Header.Set(load.Authorization, load.Bearer(key))
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	bound := int64(1 << 20)
	if _, whole := out.(*[]byte); whole { // what many ranks export is long
		bound = 16 << 20
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, bound))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	status := s.part(resp.Status)
	switch {
	case resp.StatusCode/100 == 3:
		to := s.part(resp.Header.Get("Location"))
		return &answerError{resp.StatusCode, fmt.Sprintf("%s %s: %s, to %s; hcl follows no redirect: "+
			"a url has to be the server's own", method, path, status, to)}
	case resp.StatusCode != http.StatusOK:
		return &answerError{resp.StatusCode, fmt.Sprintf("%s %s: %s %s", method, path, status, s.part(string(body)))}
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte: // as it is
		*out = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s %s: not what this engine answers: %s", method, path, s.part(string(body)))
	}
	return nil
}

type answerError struct {
	code int
	text string
}

func (e *answerError) Error() string { return e.text }

// answerShown is how much of an answer an error shows, in bytes.
const answerShown = 300

func (s *server) part(answer string) string {
	return plain.Cut(strings.Join(strings.Fields(s.shown(answer)), " "), answerShown)
}

type unlistedError struct {
	path, want string
	listed     []string
}

func (e *unlistedError) Error() string {
	if e.want == "" || len(e.listed) == 0 {
		return fmt.Sprintf("GET %s: no model is listed", e.path)
	}
	listed := plain.Cut(strings.Join(e.listed, ", "), answerShown)
	return fmt.Sprintf("GET %s: the model %s is not listed, only %s", e.path, e.want, listed)
}

// listed is a model as a server lists it.
type listed struct {
	ID          string
	MaxModelLen int `json:"max_model_len"` // tokens that a prompt and its answer may have together; 0: it does not say
}

// model returns the model as it is served. Without a name to look
// for it is the first that is listed.
func (s *server) model(ctx context.Context, path, want string) (listed, error) {
	var list struct{ Data []listed }
	if err := s.get(ctx, path, &list); err != nil {
		return listed{}, err
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if i := slices.Index(ids, want); want != "" && i >= 0 {
		return list.Data[i], nil
	}
	shown := make([]string, len(ids))
	for i, id := range ids {
		shown[i] = s.shown(id)
	}
	switch {
	case want != "" || len(ids) == 0:
		return listed{}, &unlistedError{path, want, shown}
	case shown[0] != ids[0]:
		return listed{}, fmt.Errorf("GET %s: the model %q has a name that cannot be shown: "+
			"say in a model block which one is meant", path, shown[0])
	}
	return list.Data[0], nil
}

var errNoToken = errors.New("the server answers, but generates no token")

// The prompt and its length, by the two endpoints. Temperature 0: the answer is always the same.
const (
	complete = `{"model":%s,"prompt":%s,"max_tokens":%d,"temperature":0}`
	chat     = `{"model":%s,"messages":[{"role":"user","content":%s}],"max_tokens":%d,"temperature":0}`
)

var errNoVector = errors.New("the server answers, but with nothing of what was asked")

// The smallest requests to endpoints that generate nothing, and where they go.
var smallest = map[string]string{
	load.Embeddings: `{"model":%s,"input":"Hello"}`,
	load.Rerank:     `{"model":%s,"query":"Hello","documents":["Hello"]}`,
}

// generate has the server make one token, the only proof that it serves; of an engine that generates
// nothing, one embedding or one score.
func (s *server) generate(ctx context.Context, model string, patience time.Duration) error {
	if small, silent := smallest[s.asks.Endpoint]; silent {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		name, err := json.Marshal(model)
		if err != nil {
			return err
		}
		var text []byte
		if err := s.do(ctx, "POST", s.asks.Path(), fmt.Appendf(nil, small, name), &text); err != nil {
			return err
		}
		if !answersOneText(text) {
			return errNoVector
		}
		return nil
	}
	_, err := s.answer(ctx, model, "Hello", 1, patience)
	return err
}

// answersOneText reports whether an answer is about one text: a list with a vector or a score (vLLM, and of SGLang
// ranks alone).
func answersOneText(answer []byte) bool {
	var of struct{ Data, Results []json.RawMessage }
	if json.Unmarshal(answer, &of) != nil {
		json.Unmarshal(answer, &of.Results) // what is neither has nothing
	}
	return len(of.Data)+len(of.Results) == 1
}

// answer has the server generate up to so many tokens, and returns what they say.
func (s *server) answer(ctx context.Context, model, prompt string, tokens int, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name, err := json.Marshal(model)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(prompt)
	if err != nil {
		return "", err
	}
	var answer struct {
		Choices []struct {
			Text    string
			Message struct{ Content string }
		}
		Usage *struct {
			Completion int `json:"completion_tokens"`
		}
	}
	err = s.do(ctx, "POST", "/v1/completions", fmt.Appendf(nil, complete, name, text, tokens), &answer)
	if status := new(answerError); errors.As(err, &status) && status.code == http.StatusNotFound {
		err = s.do(ctx, "POST", "/v1/chat/completions", fmt.Appendf(nil, chat, name, text, tokens), &answer)
	}
	switch {
	case err != nil:
		return "", err
	case len(answer.Choices) == 0 || answer.Usage != nil && answer.Usage.Completion == 0:
		return "", errNoToken
	}
	return answer.Choices[0].Text + answer.Choices[0].Message.Content, nil
}

// resetCache drops the engine's prefix cache and says what came of it.
func (s *server) resetCache(ctx context.Context, e *engines.Engine) string {
	posts, kept, why := engines.CacheReset(e)
	if posts == nil {
		return "unsupported: " + why
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, path := range posts {
		if err := s.reset(ctx, path); err != nil {
			return "failed: " + err.Error()
		}
	}
	if kept != "" {
		return "flushed, but it may be warm: " + kept
	}
	return "flushed"
}

// reset has one cache dropped. vLLM answers 200 also where it has dropped nothing, as long as blocks are held: by a request
// that has not quite ended, or on their way out.
func (s *server) reset(ctx context.Context, path string) error {
	for begun := time.Now(); ; {
		var text []byte
		if err := s.do(ctx, "POST", path, nil, &text); err != nil {
			return err
		}
		var did struct{ Success *bool }
		if json.Unmarshal(text, &did) != nil || did.Success == nil || *did.Success { // SGLang answers in words
			return nil
		}
		if time.Since(begun) > countPatience || !flow.Pause(ctx, countEvery) {
			return fmt.Errorf("POST %s: %s: nothing was dropped", path, s.part(string(text)))
		}
	}
}

// versions are those of an engine and of what it is made of: a container is asked what is in it, and what that does not
// tell of the engine itself its server does. That they cannot be known is no reason not to measure.
func (e *engine) versions(ctx context.Context, m *member) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	versions := map[string]string{}
	if command := engines.Versions(m.Engine); command != nil && m.Runtime == provision.Docker {
		err := m.at.Docker.Exec(ctx, m.id, command)
		var out []byte
		if err == nil {
			out, _, err = m.rt.ReadFile(ctx, m.id, engines.VersionsFile)
		}
		var inside map[string]string
		if err == nil {
			inside, err = engines.ReadVersions(out)
		}
		if err != nil {
			e.debug("versions are not known", err)
		}
		for name, version := range inside {
			versions[e.secrets.Line(name)] = e.secrets.Line(version)
		}
	}
	name, paths := engines.OwnVersion(m.Engine)
	if !m.Answers || paths == nil || versions[name] != "" {
		return versions
	}
	var why error // of the newest path
	for _, path := range paths {
		text, err := m.told(ctx, e, path)
		if err == nil {
			var told struct{ Version string }
			json.Unmarshal(text, &told) // what is of another form tells none
			if engines.CheckVersion(told.Version) == nil {
				versions[name] = e.secrets.Line(told.Version)
				return versions
			}
			why = fmt.Errorf("at %s it says %q", path, plain.Cut(e.secrets.Line(told.Version), 40))
			break
		}
		why = cmp.Or(why, err)
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		e.tell.say(Warning, "%s", m.says(fmt.Sprintf(noVersion, why)))
	}
	return versions
}

// noVersion is said of a server that tells no version, or one that cannot be one.
const noVersion = "the server's version is not known, so its settings were checked by what the lab says of it alone: %v"

// selfTold is what a server answers at a path at which it may tell of itself, or that it has no such path.
type selfTold struct {
	text json.RawMessage
	err  error
}

// told is what a member's server answers at a path at which it tells of itself. Where it has answered it is not asked again.
func (m *member) told(ctx context.Context, e *engine, path string) (json.RawMessage, error) {
	if of, known := m.tells[path]; known {
		return of.text, of.err
	}
	server := m.server(e)
	defer server.close()
	var of selfTold
	of.err = server.get(ctx, path, &of.text)
	if status := new(answerError); of.err == nil || errors.As(of.err, &status) && status.code == http.StatusNotFound {
		if m.tells == nil {
			m.tells = map[string]selfTold{}
		}
		m.tells[path] = of
	}
	return of.text, of.err
}

// served is what a member says that it runs with.
func (e *engine) served(ctx context.Context, m *member) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, path := range engines.ServedConfig(m.Engine) {
		said, err := m.told(ctx, e, path)
		if err == nil {
			said, err = engines.WithoutSecrets(m.Engine, said)
		}
		if err == nil {
			return said
		}
		e.debug("what it serves with is not known", err)
	}
	return nil
}

// compareServed warns of every flag that an engine does not run with, and returns
// why its measurements are to be doubted; member names it where there are several.
func (e *engine) compareServed(of *engines.Engine, member string, served json.RawMessage) (doubts []string) {
	differences, err := engines.Differences(of, served)
	if err != nil {
		e.debug("what it serves with cannot be compared", err)
	}
	for _, diff := range differences {
		said := strings.TrimPrefix(member+": "+diff.String(), ": ")
		e.tell.say(Warning, "%s", said)
		doubts = append(doubts, said)
	}
	return doubts
}
