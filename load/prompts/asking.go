package prompts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hclbench/load"
)

// asking is what an entry of a data set asks for beside its prompt: members of its requests,
// sent as they stand there.
type asking struct {
	Tools          json.RawMessage            `json:"tools"`
	ToolChoice     json.RawMessage            `json:"tool_choice"`
	ParallelCalls  json.RawMessage            `json:"parallel_tool_calls"`
	ResponseFormat json.RawMessage            `json:"response_format"`
	Extra          map[string]json.RawMessage `json:"extra"` // any others
}

// given are the members that say something, by their names: many files have an empty list where there is no tool.
func (a asking) given(w load.Workload) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	maps.Copy(all, a.Extra)
	for name, value := range map[string]json.RawMessage{"tools": a.Tools, "tool_choice": a.ToolChoice,
		"parallel_tool_calls": a.ParallelCalls, "response_format": a.ResponseFormat} {
		if isSet(value) {
			all[name] = value
		}
	}
	if w.Endpoint == load.Responses {
		asItems(all)
	}
	return all
}

func isSet(value json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "[]", `""`, `"[]"`, "{}"}, string(value))
}

// members are they as they stand between the braces of a request's body.
func (a asking) members(w load.Workload) []byte {
	var b bytes.Buffer
	all := a.given(w)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.Write(quoted(name))
		b.WriteByte(':')
		b.Write(all[name])
	}
	return b.Bytes()
}

// check says what no engine would take, and what the load has said.
func (a asking) check(w load.Workload) error {
	all := a.given(w)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if w.Says(name) {
			return fmt.Errorf("%q belongs in the load block, and not in an entry", name)
		}
	}
	for _, name := range []string{"tools", "tool_choice", "parallel_tool_calls"} {
		if all[name] != nil && !w.TakesMessages() {
			return fmt.Errorf("%q needs the endpoint %q", name, load.Chat)
		}
	}
	if all["tools"] != nil {
		var tools []struct {
			Type     string `json:"type"`
			Name     string `json:"name"` // where it lies flat
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(a.Tools, &tools) != nil || len(tools) == 0 {
			return errors.New("\"tools\" is not a list of tools")
		}
		for i, t := range tools {
			if t.Type == "function" && t.Function.Name == "" && (t.Name == "" || w.Endpoint != load.Responses) {
				return fmt.Errorf("tool %d is a function without a \"name\"", i+1)
			}
		}
	}
	if w.Endpoint == load.Responses && a.Extra["text"] != nil && (isSet(a.ResponseFormat) || a.Extra["response_format"] != nil) {
		return errors.New("\"response_format\" and \"text\" mean the same to the Responses API: keep one of them")
	}
	if isSet(a.ResponseFormat) {
		var format struct {
			Type   string `json:"type"`
			Schema *struct {
				Schema map[string]any `json:"schema"`
			} `json:"json_schema"`
		}
		switch err := json.Unmarshal(a.ResponseFormat, &format); {
		case err != nil || format.Type == "":
			return errors.New("\"response_format\" is not an object with a \"type\"")
		case format.Type == "json_schema" && (format.Schema == nil || format.Schema.Schema == nil):
			return errors.New("\"response_format\" has no object \"json_schema.schema\"")
		}
	}
	return nil
}

// checkMessages says what is no list of messages.
func checkMessages(w load.Workload, raw []byte) error {
	if !w.TakesMessages() {
		return fmt.Errorf("\"messages\" needs the endpoint %q", load.Chat)
	}
	var messages []struct {
		Role string `json:"role"`
	}
	if err := json.Unmarshal(raw, &messages); err != nil || len(messages) == 0 {
		return errors.New("\"messages\" is not a list of messages")
	}
	for i, m := range messages {
		if m.Role == "" {
			return fmt.Errorf("message %d has no \"role\"", i+1)
		}
	}
	var items []message
	if w.Endpoint == load.Responses && json.Unmarshal(raw, &items) != nil {
		return errors.New("\"messages\" has an element that is not a chat message")
	}
	return itemsOf(w, items)
}
