package engines

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

// sglangSplit gives SGLang its part of prefill or decode (docs/advanced_features/pd_disaggregation).
func sglangSplit(e *Engine, s *spot) {
	e.say("disaggregation-mode", s.role)
	e.say("disaggregation-transfer-backend", s.transfer)
	if rdma := e.Host().Fabric.RDMA; len(rdma) > 0 {
		e.say("disaggregation-ib-device", strings.Join(rdma, ","))
	}
	if s.role == Prefill {
		e.say("disaggregation-bootstrap-port", s.headPort("bootstrap", bootstrapPort))
	}
}

const mooncake = "mooncake" // a transfer of all kinds

// vllmConnectors are vLLM's ways from prefill to decode (distributed/kv_transfer/kv_connector/factory.py),
// with the ports and variables that each wants; the settings are members of its
// kv_connector_extra_config.
var vllmConnectors = map[string]struct {
	name     string
	since    setting.Version // of vLLM
	until    setting.Version // the first without it; zero: it is there
	split    setting.Version // from which prefill and decode have roles of their own; zero: always
	settings func(e *Engine, s *spot) map[string]any
}{
	"nixl": {"NixlConnector", setting.Version{0, 9, 0}, setting.Version{}, setting.Version{0, 32, 0}, func(e *Engine, s *spot) map[string]any {
		e.setVariable("VLLM_NIXL_SIDE_CHANNEL_HOST", e.Host().Inside())
		e.setVariable("VLLM_NIXL_SIDE_CHANNEL_PORT", s.ports.use("nixl", sidePort))
		return nil
	}},
	mooncake: {"MooncakeConnector", setting.Version{0, 13, 0}, setting.Version{}, setting.Version{}, func(e *Engine, s *spot) map[string]any {
		if s.role == Prefill {
			e.setVariable("VLLM_MOONCAKE_BOOTSTRAP_PORT", s.ports.use("bootstrap", bootstrapPort))
		}
		return nil
	}},
	"mori": {"MoRIIOConnector", setting.Version{0, 14, 0}, setting.Version{}, setting.Version{}, func(e *Engine, s *spot) map[string]any {
		settings := s.proxy(e)
		settings["proxy_ping_port"] = s.routerPorts().at(discoveryPort)
		settings["handshake_port"] = s.ports.use("handshake", handshakePort)
		settings["notify_port"] = s.ports.use("notify", notifyPort)
		return settings
	}},
	"p2p_nccl": {"P2pNcclConnector", setting.Version{0, 9, 2}, setting.Version{0, 24, 0}, setting.Version{}, func(e *Engine, s *spot) map[string]any {
		settings := s.proxy(e)
		settings["proxy_port"] = s.routerPorts().at(discoveryPort)
		return settings
	}},
}

// proxy is where a worker tells the router of itself.
func (s *spot) proxy(e *Engine) map[string]any {
	at := e.Host().Inside()
	if s.whole.recipe(Route) != nil {
		at = s.whole.Host().Inside()
	}
	return map[string]any{"proxy_ip": at, "http_port": strconv.Itoa(e.port())}
}

// routerPorts are the router's, which is the last member.
func (s *spot) routerPorts() *ports {
	n := 0
	for _, r := range s.whole.workers() {
		for _, in := range r.instances {
			n += len(in.Hosts)
		}
	}
	p := s.whole.portsOf(n)
	return &p
}

// vllmSplit gives vLLM its part of prefill or decode. What the lab says of the transfer
// stays; the rest is filled in.
func vllmSplit(e *Engine, s *spot) {
	c, known := vllmConnectors[s.transfer]
	if !known {
		return // told by [Check]
	}
	config := map[string]any{"kv_connector": c.name, "kv_role": "kv_both"}
	// What the version is, is not always known: all take "kv_both".
	if v := e.version(); !c.split.Known() || v.Known() && !v.Before(c.split) {
		config["kv_role"] = map[string]string{Prefill: "kv_producer", Decode: "kv_consumer"}[s.role]
	}
	if s.transfer == "p2p_nccl" {
		config["kv_port"] = s.ports.use("kv", kvPort)
	}
	if settings := c.settings(e, s); settings != nil {
		config["kv_connector_extra_config"] = settings
	}
	labs, err := transferConfig(e)
	if err != nil {
		return // likewise
	}
	e.Flags = slices.DeleteFunc(e.Flags, func(f Flag) bool { return e.isTransfer(f.Name) })
	text := filled(labs, config)
	e.say(transferFlag, text.Reveal())
	i := slices.IndexFunc(e.Flags, func(f Flag) bool { return f.Name == transferFlag })
	e.Flags[i].Value = &text
}

const transferFlag = "kv-transfer-config"

func (e *Engine) isTransfer(flag string) bool {
	row, _ := e.dialect().option(flag)
	return row != nil && row.Name == transferFlag
}

// transferConfig is what the lab says of vLLM's transfer: an object, and its members one by
// one, as kv-transfer-config.kv_buffer_size = "2e9", which count more.
func transferConfig(e *Engine) (provision.Text, error) {
	whole, members, secrets := map[string]any{}, map[string]any{}, []string(nil)
	for _, f := range e.Flags {
		if !e.isTransfer(f.Name) {
			continue
		}
		secrets = append(secrets, f.text().Secrets()...)
		_, path, dotted := strings.Cut(f.Name, ".")
		if !dotted {
			if err := json.Unmarshal([]byte(f.text().Reveal()), &whole); err != nil {
				return provision.Text{}, err
			}
			continue
		}
		var value any
		if json.Unmarshal([]byte(f.text().Reveal()), &value) != nil {
			value = f.text().Reveal()
		}
		names := strings.Split(path, ".")
		for _, name := range slices.Backward(names) {
			value = map[string]any{name: value}
		}
		members = merged(members, value.(map[string]any))
	}
	text, err := json.Marshal(merged(members, whole))
	if len(secrets) > 0 {
		return provision.Partly(string(text), `{"all": "(sensitive)"}`, secrets), err
	}
	return provision.Plain(string(text)), err
}

// trtllmSplit gives TensorRT-LLM its part (docs/source/features/disagg-serving.md): it is
// in the configuration file.
func trtllmSplit(e *Engine, s *spot) {
	transceiver := map[string]any{"backend": strings.ToUpper(s.transfer)}
	if e.version().Known() && !e.before(1, 3, 0) {
		transceiver["kv_transfer_timeout_ms"] = 1000 * hours // its own is 60 s since then, after which it gives a request up
		if s.transfer == "ucx" || s.transfer == mooncake {   // which its usual runtime does not take since 1.4
			transceiver["transceiver_runtime"] = "CPP"
		}
	}
	ours := map[string]any{"cache_transceiver_config": transceiver}
	if s.role == Prefill {
		ours["disable_overlap_scheduler"] = true
	}
	e.Config = filled(e.Config, ours)
}

// filled is a JSON object of the lab's with what of ours is not in it. One that is none is
// left alone: that is told elsewhere.
func filled(labs provision.Text, ours map[string]any) provision.Text {
	fill := func(text string) string {
		if text == "" {
			text = "{}"
		}
		var said map[string]any
		if json.Unmarshal([]byte(text), &said) != nil {
			return text
		}
		out, err := json.Marshal(merged(said, ours))
		if err != nil {
			panic(fmt.Sprintf("marshal what was JSON: %v. This is a bug in hcl.", err))
		}
		return string(out)
	}
	if !labs.IsSecret() {
		return provision.Plain(fill(labs.Reveal()))
	}
	return provision.Partly(fill(labs.Reveal()), fill(labs.String()), labs.Secrets())
}

// merged is an object with the members of another that it does not have.
func merged(labs, ours map[string]any) map[string]any {
	out := maps.Clone(labs)
	if out == nil {
		out = map[string]any{}
	}
	for name, v := range ours {
		has, said := out[name]
		inner, isObject := has.(map[string]any)
		more, both := v.(map[string]any)
		switch {
		case !said:
			out[name] = v
		case isObject && both:
			out[name] = merged(inner, more)
		}
	}
	return out
}

// Transfers are the ways in which an engine kind hands the KV cache from prefill to
// decode, the usual one first; nil: hcl knows none.
func Transfers(kind string) []string { return kinds[kind].transfers }
