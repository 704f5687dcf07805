package sim

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command reads a command line: that of an engine, or our own flags.
//
//	vllm serve MODEL …
//	python3 -m vllm.entrypoints.openai.api_server --model MODEL …
//	python3 -m sglang.launch_server --model-path MODEL …
//	trtllm-serve [serve] MODEL …
//	--model M --as vllm|sglang|trtllm …
//
// listen is "host:port" with the engine's own defaults. In an engine's command
// line every flag that says nothing about the simulation is passed over; our
// own flags (see [Usage]) may stand among them. Alone, they must all be known.
func Command(args []string) (cfg Config, listen string, err error) {
	p := parser{cfg: Config{As: VLLM}, host: "127.0.0.1", port: "8000"}
	rest := args
	p.engine = true
	as, after, router := routerCommand(args)
	switch {
	case router:
		p.cfg.As, p.port, rest = as, "30000", after
		if p.cfg.Routes, rest, err = routes(p.cfg.As, rest); err != nil {
			return Config{}, "", err
		}
	case starts(args, "vllm", "serve"):
		p.host, rest = "", args[2:]
	case isPython(args) && starts(args[1:], "-m", "vllm.entrypoints.openai.api_server"):
		p.host, rest = "", args[3:]
	case isPython(args) && starts(args[1:], "-m", "sglang.launch_server"):
		p.cfg.As, p.port, rest = SGLang, "30000", args[3:]
	case starts(args, "sglang", "serve"):
		p.cfg.As, p.port, rest = SGLang, "30000", args[2:]
	case starts(args, "trtllm-serve", "serve"):
		p.cfg.As, rest = TRTLLM, args[2:]
	case starts(args, "trtllm-serve"):
		p.cfg.As, rest = TRTLLM, args[1:]
	default:
		p.engine, rest = false, args
	}
	if err := p.parse(rest); err != nil {
		return Config{}, "", err
	}
	if router {
		return p.router()
	}
	if p.cfg.Place, err = placeOf(p.cfg, p.host, os.Getenv); err != nil {
		return Config{}, "", err
	}
	if p.engine && p.cfg.As == TRTLLM && strings.HasPrefix(p.cfg.Model, "/") {
		p.cfg.Model = filepath.Base(p.cfg.Model) // as trtllm-serve lists a folder
	}
	if p.served != "" {
		p.cfg.Model = p.served
	}
	if p.engine && p.cfg.Model == "" {
		return Config{}, "", errors.New("the command line names no model")
	}
	return p.cfg, net.JoinHostPort(p.host, p.port), nil
}

// router is the configuration of a router whose command line was read.
func (p *parser) router() (cfg Config, listen string, err error) {
	switches := *p.cfg.Routes
	if p.cfg.As == TRTLLM {
		var r *Routes
		if r, p.host, p.port, err = readRoutes(p.cfg.Flags["config-file"]); err != nil {
			return Config{}, "", err
		}
		r.CountDead, r.BreakAfter, r.MindCache = switches.CountDead, switches.BreakAfter, switches.MindCache
		p.cfg.Routes = r
	}
	return p.cfg, net.JoinHostPort(p.host, p.port), nil
}

// EnvFlags are our own flags as environment variables say them: HCL_SIM_ITL=5ms
// is --itl 5ms. Appended to a command line, they let a container image say how
// its engine behaves whatever command it is started with.
func EnvFlags(environ []string) []string {
	var args []string
	for _, f := range flags {
		name := "HCL_SIM_" + strings.ToUpper(strings.ReplaceAll(f.name, "-", "_")) + "="
		for _, e := range environ {
			if v, ok := strings.CutPrefix(e, name); ok {
				args = append(args, "--"+f.name, v)
			}
		}
	}
	return args
}

// Usage describes our own flags, one to a line.
func Usage() string {
	var b strings.Builder
	for _, f := range flags {
		fmt.Fprintf(&b, "  --%-32s %s\n", f.name+" "+f.value, f.help)
	}
	return b.String()
}

func starts(args []string, words ...string) bool {
	return len(args) >= len(words) && filepath.Base(args[0]) == words[0] && slices.Equal(args[1:len(words)], words[1:])
}

func isPython(args []string) bool {
	return len(args) > 0 && strings.HasPrefix(filepath.Base(args[0]), "python")
}

type parser struct {
	cfg        Config
	host, port string
	served     string
	engine     bool   // an engine's command line, where foreign flags are passed over
	batch      *Batch // that of an offline benchmark; nil: of a server
}

type ownFlag struct {
	name, value, help string
	set               func(p *parser, v string) error
}

var flags = []ownFlag{
	{"model", "NAME", "name of the served model (default sim)",
		func(p *parser, v string) error { p.cfg.Model = v; return nil }},
	{"host", "ADDRESS", "address to listen on", func(p *parser, v string) error { p.host = v; return nil }},
	{"port", "N", "port to listen on; 0: any free one", func(p *parser, v string) error {
		if n, err := strconv.Atoi(v); err != nil || n < 0 || n > 65535 {
			return errors.New("not a port")
		}
		p.port = v
		return nil
	}},
	{"share-port", "BOOL", "let others listen there too, as vLLM may (default false)",
		truth(func(c *Config) *bool { return &c.SharePort })},
	{"as", "ENGINE", "engine to pass for: vllm, sglang or trtllm (default vllm)", func(p *parser, v string) error {
		if !slices.Contains([]string{VLLM, SGLang, TRTLLM}, v) {
			return errors.New("not one of vllm, sglang, trtllm")
		}
		p.cfg.As = v
		return nil
	}},
	{"ttft", "DURATION", "time to the first token (default 50ms)",
		duration(func(c *Config) *time.Duration { return &c.TTFT })},
	{"itl", "DURATION", "time between tokens (default 10ms)",
		duration(func(c *Config) *time.Duration { return &c.ITL })},
	{"table", "TABLE", "times by concurrency: 1:20ms/5ms,64:90ms/12ms, or a CSV file",
		func(p *parser, v string) (err error) {
			p.cfg.Table, err = openTable(v)
			return err
		}},
	{"spread", "SIGMA", "spread of the logarithm of the TTFT, which is normal", func(p *parser, v string) (err error) {
		p.cfg.Spread, err = strconv.ParseFloat(v, 64)
		if err != nil || !(p.cfg.Spread >= 0 && p.cfg.Spread <= 3) {
			return errors.New("not a number from 0 to 3")
		}
		return nil
	}},
	{"speed", "FACTOR", "do all that so many times faster (default 1)", func(p *parser, v string) (err error) {
		p.cfg.Speed, err = strconv.ParseFloat(v, 64)
		if err != nil || !(p.cfg.Speed > 0) || math.IsInf(p.cfg.Speed, 0) {
			return errors.New("not a number above zero")
		}
		return nil
	}},
	{"tokens-per-chunk", "N", "tokens in one chunk (default 1)",
		count(func(c *Config) *int { return &c.TokensPerChunk })},
	{"reasoning", "TOKENS", "begin answers of chats with so many tokens of reasoning",
		count(func(c *Config) *int { return &c.Reasoning })},
	{"answers", "FILE", "answer, or call tools, as the JSON line whose asked is asked",
		func(p *parser, v string) (err error) {
			p.cfg.Answers, err = readAnswers(v)
			return err
		}},
	{"logprob-noise", "SIGMA", "noise in the probabilities told of a prompt's tokens", func(p *parser, v string) (err error) {
		p.cfg.LogprobNoise, err = strconv.ParseFloat(v, 64)
		if err != nil || !(p.cfg.LogprobNoise >= 0 && p.cfg.LogprobNoise <= 10) {
			return errors.New("not a number from 0 to 10")
		}
		return nil
	}},
	{"answer-cache", "BOOL", "stream at once what was asked for before (default false)",
		truth(func(c *Config) *bool { return &c.AnswerCache })},
	{"embeds", "BOOL", "generate nothing: make embeddings, and rank (default false)",
		truth(func(c *Config) *bool { return &c.Embeds })},
	{"adapters", "NAMES", "serve these LoRA adapters, their names with a comma between",
		func(p *parser, v string) error {
			p.cfg.Adapters = append(p.cfg.Adapters, strings.Split(v, ",")...)
			return nil
		}},
	{"call-every", "N", "answer every n-th chat that offers tools with a tool call",
		count(func(c *Config) *int { return &c.CallEvery })},
	{"stop-after", "TOKENS", "end every generation after so many tokens",
		count(func(c *Config) *int { return &c.StopAfter })},
	{"hang-after", "REQUESTS", "stop answering after so many requests",
		count(func(c *Config) *int { return &c.HangAfter })},
	{"fail-every", "N", "answer every n-th request with status 500",
		count(func(c *Config) *int { return &c.FailEvery })},
	{"lie", "FLAG=VALUE", "say that a flag of the engine's command line has this value",
		func(p *parser, v string) error {
			flag, value, ok := strings.Cut(v, "=")
			if !ok {
				return errors.New("not FLAG=VALUE")
			}
			note(&p.cfg.Lies, flag, value)
			return nil
		}},
	{"not-ready-for", "DURATION", "start up for so long",
		duration(func(c *Config) *time.Duration { return &c.NotReadyFor })},
	{"die-after", "DURATION", "exit with an error after so long",
		duration(func(c *Config) *time.Duration { return &c.DieAfter })},
	{"early-ready", "BOOL", "say so before the other ranks are there (default false)",
		truth(func(c *Config) *bool { return &c.EarlyReady })},
	{"local-prefill", "BOOL", "as decode prefill alone, and say nothing of it (default false)",
		truth(func(c *Config) *bool { return &c.LocalPrefill })},
	{"lose-kv", "N", "as decode lose every n-th prompt that was prefilled elsewhere",
		count(func(c *Config) *int { return &c.LoseKV })},
	{"hold-kv", "PERCENT", "have so much of the KV cache in use without a request",
		count(func(c *Config) *int { return &c.HoldKV })},
	{"wrong-text", "N", "give every n-th answer other words",
		count(func(c *Config) *int { return &c.WrongText })},
	{"mind-cache", "BOOL", "as a router prefer servers with few requests (default false)",
		truth(func(c *Config) *bool { return &c.routes().MindCache })},
	{"count-dead", "BOOL", "as a router say that dead workers are well (default false)",
		truth(func(c *Config) *bool { return &c.routes().CountDead })},
	{"break-after", "REQUESTS", "as a router refuse all after so many requests",
		count(func(c *Config) *int { return &c.routes().BreakAfter })},
	{"fail-start", "TEXT", "print the text and exit instead of getting ready",
		func(p *parser, v string) error { p.cfg.FailStart = v; return nil }},
}

func note(in *map[string]string, name, value string) {
	if *in == nil {
		*in = map[string]string{}
	}
	(*in)[name] = value
}

// duration makes an explicit zero mean none at all: in a [Config] zero is the
// default.
func duration(of func(*Config) *time.Duration) func(*parser, string) error {
	return func(p *parser, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return errors.New("not a duration, such as 20ms")
		}
		if d == 0 {
			d = -1
		}
		*of(&p.cfg) = d
		return nil
	}
}

func count(of func(*Config) *int) func(*parser, string) error {
	return func(p *parser, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return errors.New("not a whole number above zero")
		}
		*of(&p.cfg) = n
		return nil
	}
}

func truth(of func(*Config) *bool) func(*parser, string) error {
	return func(p *parser, v string) error {
		yes, err := strconv.ParseBool(v)
		if err != nil {
			return errors.New("not true or false")
		}
		*of(&p.cfg) = yes
		return nil
	}
}

// routes is where the switches of a router go, which an engine has no use for.
func (c *Config) routes() *Routes {
	if c.Routes == nil {
		return &Routes{}
	}
	return c.Routes
}

func openTable(v string) (Table, error) {
	if strings.Contains(v, ":") {
		return ParseTable(v)
	}
	f, err := os.Open(v)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadTable(f)
}

func (p *parser) parse(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if !strings.HasPrefix(arg, "-") {
			if err := p.positional(arg); err != nil {
				return err
			}
			continue
		}
		name, value, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		set := p.setter(name)
		if set == nil {
			if !p.engine && !saysPlace(name) {
				return fmt.Errorf("--%s is not a flag of the simulated engine", name)
			}
			// A foreign flag may have a value or not; what follows and is no flag
			// is taken for its value.
			if !inline {
				value = "true"
				if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
					value, args = args[0], args[1:]
				}
			}
			name = strings.ReplaceAll(name, "_", "-")
			note(&p.cfg.Flags, name, value)
			if p.engine && (name == "lora-modules" || name == "lora-paths") {
				args = p.adapters(value, args)
			}
			continue
		}
		if !inline {
			if len(args) == 0 {
				return fmt.Errorf("--%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		if err := set(p, value); err != nil {
			return fmt.Errorf("--%s %q: %w", name, value, err)
		}
	}
	return nil
}

// adapters takes what vLLM and SGLang are told of theirs, NAME=PATH each, and returns what is left.
func (p *parser) adapters(first string, more []string) []string {
	n := 0
	for n < len(more) && strings.Contains(more[n], "=") && !strings.HasPrefix(more[n], "-") {
		n++
	}
	for _, text := range append([]string{first}, more[:n]...) {
		if name, _, named := strings.Cut(text, "="); named {
			p.cfg.Adapters = append(p.cfg.Adapters, name)
		}
	}
	return more[n:]
}

// positional takes the model where an engine has it without a flag.
func (p *parser) positional(arg string) error {
	if !p.engine {
		return fmt.Errorf("%q: the simulated engine takes flags, or the command line of vllm, sglang or trtllm-serve", arg)
	}
	if p.cfg.Model == "" {
		p.cfg.Model = arg
	}
	return nil
}

func (p *parser) setter(name string) func(*parser, string) error {
	if p.batch != nil {
		if set := p.batch.set(strings.ReplaceAll(name, "_", "-")); set != nil {
			return set
		}
	}
	if p.engine {
		switch strings.ReplaceAll(name, "_", "-") {
		case "model-path":
			name = "model"
		case "served-model-name":
			return func(p *parser, v string) error { p.served = v; return nil }
		case "as":
			return nil
		}
	}
	for _, f := range flags {
		if f.name == name {
			return f.set
		}
	}
	return nil
}
