package prompts

import (
	"encoding/json"
	"fmt"

	"hclbench/load"
)

// The Responses API takes some of what a chat is asked with in another form. Data sets have the
// form of a chat, so that one file serves both.

// asItems puts what an entry asks for into that form: functions lie flat, and the form of the answer
// is said as that of its text.
func asItems(all map[string]json.RawMessage) {
	if tools, ok := all["tools"]; ok {
		var list []json.RawMessage
		if json.Unmarshal(tools, &list) == nil {
			for i := range list {
				list[i] = flat(list[i], "function")
			}
			all["tools"] = rewritten(list)
		}
	}
	if choice, ok := all["tool_choice"]; ok {
		all["tool_choice"] = flat(choice, "function")
	}
	if format, ok := all["response_format"]; ok {
		delete(all, "response_format")
		all["text"] = rewritten(map[string]json.RawMessage{"format": flat(format, "json_schema")})
	}
}

// flat is an object with the members of one of its objects in place of that; other values are as they are.
func flat(raw json.RawMessage, member string) json.RawMessage {
	var object, inner map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || json.Unmarshal(object[member], &inner) != nil || inner == nil {
		return raw
	}
	delete(object, member)
	for name, value := range inner {
		if _, has := object[name]; !has {
			object[name] = value
		}
	}
	return rewritten(object)
}

// rewritten is JSON of what has been read from JSON, which always marshals.
func rewritten(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}

// itemsOf says why messages cannot be sent as they are where an endpoint takes other ones.
func itemsOf(w load.Workload, messages []message) error {
	if w.Endpoint != load.Responses {
		return nil
	}
	for i, m := range messages {
		switch {
		case m.Role == roleTool || len(m.ToolCalls) > 0:
			return fmt.Errorf("message %d has a tool call or its result, which only the endpoint %q takes",
				i+1, load.Chat)
		case string(m.Content) == "null":
			return fmt.Errorf("message %d has no \"content\"", i+1)
		case len(m.Content) > 0 && m.Content[0] != '"':
			return fmt.Errorf("message %d has a list of parts, which only the endpoint %q takes: write its content as a text",
				i+1, load.Chat)
		}
	}
	return nil
}

// finish makes the conversation's messages as they can be sent. The text of an answer that the server
// gives anew is not among them.
func (s *spoken) finish(w load.Workload) error {
	for _, x := range s.says {
		sent := x.messages
		if w.Dataset.History == load.Recorded || len(x.answer.ToolCalls) > 0 {
			sent = append(sent[:len(sent):len(sent)], x.answer)
		}
		if err := itemsOf(w, sent); err != nil {
			return err
		}
	}
	if w.Dataset.Salt {
		return s.salted()
	}
	return nil
}
