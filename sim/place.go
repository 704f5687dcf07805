package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Place says where a simulated engine stands among others that are one engine with it. The
// zero value stands alone.
type Place struct {
	Rank, Ranks int    // of one instance over several hosts; Ranks 0 or 1: it has no others
	Store       string // "host:port" where rank 0 waits for the others
	Headless    bool   // a rank above 0 that opens no port, as vLLM's; SGLang's say that they are healthy, and no more
	Role        string // [Prefill] or [Decode]; empty: both, as each request says
	Door        string // "host:port" where decode fetches what was prefilled; empty: it is fetched from the server itself
}

// The roles of a [Place].
const (
	Prefill = "prefill"
	Decode  = "decode"
)

// placeOf reads a place from the flags of an engine's command line and its environment, as
// vLLM and SGLang have them.
func placeOf(cfg Config, host string, env func(string) string) (Place, error) {
	at := Place{}
	var err error
	flag := func(name string) string { return cfg.Flags[name] }
	number := func(name string, otherwise int) int {
		text := flag(name)
		if text == "" {
			return otherwise
		}
		n, bad := strconv.Atoi(text)
		if bad != nil || n < 0 {
			err = fmt.Errorf("--%s %q: not a whole number", name, text)
		}
		return n
	}
	at.Ranks, at.Rank = number("nnodes", 1), number("node-rank", 0)
	_, at.Headless = cfg.Flags["headless"]
	switch cfg.As {
	case SGLang:
		at.Store, at.Role = flag("dist-init-addr"), flag("disaggregation-mode")
		if port := flag("disaggregation-bootstrap-port"); port != "" && at.Role == Prefill {
			at.Door = net.JoinHostPort(host, port)
		}
	case VLLM:
		if at.Ranks > 1 {
			at.Store = net.JoinHostPort(flag("master-addr"), flag("master-port"))
		} else if local := number("data-parallel-size-local", 0); local > 0 {
			at.Ranks, at.Rank = number("data-parallel-size", 1)/local, number("data-parallel-start-rank", 0)/local
			at.Store = net.JoinHostPort(flag("data-parallel-address"), flag("data-parallel-rpc-port"))
		}
		if text := flag("kv-transfer-config"); text != "" {
			at.connector(text, host, env, &err)
		}
	}
	if at.Role != "" && at.Role != Prefill && at.Role != Decode {
		err = fmt.Errorf("--disaggregation-mode %q: not prefill or decode", at.Role)
	}
	if at.Ranks > 1 && at.Rank >= at.Ranks {
		err = fmt.Errorf("rank %d of %d: there is none", at.Rank, at.Ranks)
	}
	if err == nil && at.Role == "" && at.Door == "" && at.Ranks <= 1 {
		return Place{}, nil
	}
	return at, err
}

// saysPlace reports whether a flag of the engines says where one stands among others: the
// simulated engine takes these beside its own.
func saysPlace(flag string) bool {
	flag = strings.ReplaceAll(flag, "_", "-")
	return slices.Contains(strings.Fields(`nnodes node-rank dist-init-addr nccl-port master-addr master-port headless
		kv-transfer-config data-parallel-hybrid-lb`), flag) ||
		strings.HasPrefix(flag, "data-parallel-") || strings.HasPrefix(flag, "disaggregation-")
}

// connector is what vLLM's --kv-transfer-config says: which side it is, and where it listens.
func (at *Place) connector(text, host string, env func(string) string, failed *error) {
	var c struct {
		Connector string `json:"kv_connector"`
		Role      string `json:"kv_role"`
		Port      string `json:"kv_port"`
		Extra     struct {
			Handshake string `json:"handshake_port"`
		} `json:"kv_connector_extra_config"`
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		*failed = fmt.Errorf("--kv-transfer-config: %w", err)
		return
	}
	at.Role = map[string]string{"kv_producer": Prefill, "kv_consumer": Decode}[c.Role]
	port := ""
	switch c.Connector {
	case "NixlConnector":
		host, port = env("VLLM_NIXL_SIDE_CHANNEL_HOST"), env("VLLM_NIXL_SIDE_CHANNEL_PORT")
	case "MooncakeConnector":
		port = env("VLLM_MOONCAKE_BOOTSTRAP_PORT")
	case "MoRIIOConnector":
		port = c.Extra.Handshake
	case "P2pNcclConnector":
		port = c.Port
	default:
		*failed = fmt.Errorf("--kv-transfer-config: the connector %q is not known", c.Connector)
	}
	if port != "" {
		at.Door = net.JoinHostPort(host, port)
	}
}

// spans reports whether others have to be there for the engine to work.
func (at Place) spans() bool { return at.Ranks > 1 }

// follower reports whether it is a rank that no request comes to.
func (at Place) follower(as string) bool {
	return at.spans() && at.Rank > 0 && (at.Headless || as == SGLang)
}

// store is where ranks meet, on rank 0: each of the others connects, says which it is, and
// stays connected while it lives.
type store struct {
	mu    sync.Mutex
	here  map[string]bool
	wants int           // of the others
	whole chan struct{} // closed when all are there
	lost  chan string   // a rank that was there and has gone; one is kept
}

func newStore(ranks int) *store {
	return &store{here: map[string]bool{}, wants: ranks - 1, whole: make(chan struct{}), lost: make(chan string, 1)}
}

// serve takes the others in until ctx ends.
func (s *store) serve(ctx context.Context, l net.Listener) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		all.Go(func() {
			end := context.AfterFunc(ctx, func() { c.Close() })
			defer end()
			defer c.Close()
			s.keep(c)
		})
	}
}

func (s *store) keep(c net.Conn) {
	r := bufio.NewReader(c)
	rank, err := r.ReadString('\n')
	if err != nil {
		return
	}
	rank = strings.TrimSpace(rank)
	s.mu.Lock()
	again := s.here[rank]
	s.here[rank] = true
	if len(s.here) == s.wants && !again {
		close(s.whole)
	}
	s.mu.Unlock()
	io.Copy(io.Discard, r)
	select {
	case s.lost <- rank:
	default:
	}
}

// join connects a rank to rank 0, which may not be there yet, and returns when that has
// gone or ctx ended.
func (at Place) join(ctx context.Context, log io.Writer) error {
	var d net.Dialer
	wait := newAlarm(ctx)
	defer wait.stop()
	for {
		c, err := d.DialContext(ctx, "tcp", at.Store)
		if err == nil {
			fmt.Fprintf(c, "%d\n", at.Rank)
			stop := context.AfterFunc(ctx, func() { c.Close() })
			io.Copy(io.Discard, c)
			stop()
			c.Close()
			if ctx.Err() == nil {
				fmt.Fprintf(log, "[rank%d]: TCPStore(%s): recvValue failed\n", at.Rank, at.Store)
			}
			return ctx.Err()
		}
		if !wait.wait(time.Now().Add(100 * time.Millisecond)) {
			return ctx.Err()
		}
	}
}

// serveFollower is a rank above 0: it joins, and stays when rank 0 has gone, as the
// engines' do (vllm-project/vllm#32136).
func serveFollower(ctx context.Context, cfg Config, listen string, log io.Writer) error {
	at := cfg.Place
	if cfg.As == SGLang {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		dummy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.Path, "/health") && r.URL.Path != "/ping" {
				w.WriteHeader(http.StatusNotFound)
			}
		})}
		var served sync.WaitGroup
		served.Go(func() { dummy.Serve(l) })
		defer served.Wait()
		defer dummy.Close()
		fmt.Fprintf(log, "[rank%d]: node rank %d of %d, dist-init-addr %s\n", at.Rank, at.Rank, at.Ranks, at.Store)
	} else {
		fmt.Fprintf(log, "INFO Launching vLLM (v%s) headless multiproc executor, with head node address %s.\n", simVersion, at.Store)
	}
	ctx, cancel := cfg.mortal(ctx)
	defer cancel()
	if err := at.join(ctx, log); err != nil && !errors.Is(context.Cause(ctx), errMortal) {
		return nil
	}
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), errMortal) {
		return errMortal
	}
	return nil
}

// errMortal ends an engine that was told to end by itself.
var errMortal = errors.New("the engine was told to die after so long")

// mortal is a context that ends when the engine is to die.
func (c Config) mortal(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.DieAfter <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, c.DieAfter, errMortal)
}

// hostName is what an engine that listens everywhere calls itself to others.
func hostName(host string) string {
	if host == "" || host == "0.0.0.0" || host == "::" {
		if name, err := os.Hostname(); err == nil {
			return name
		}
	}
	return host
}
