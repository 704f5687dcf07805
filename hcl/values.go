package hcl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"hclbench/load"
	"hclbench/provision"
)

// flagList is the flags of an engine, sorted by name. A flag that was given a
// list stands once for each of its values.
type flagList []engineFlag

type engineFlag struct {
	name  string
	value *provision.Text
}

var flagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (l *flagList) add(name string, v cty.Value) *wrongValue {
	if bare := strings.TrimLeft(name, "-"); bare != name && flagName.MatchString(bare) {
		return wrong("Write the name without dashes: %s instead of %q.", bare, name)
	}
	if !flagName.MatchString(name) {
		return wrong("%q is not the name of a flag.", name)
	}
	plain, _ := v.Unmark()
	switch t := plain.Type(); {
	case plain.IsNull():
		return fits
	case t == cty.Bool:
		if v.IsMarked() {
			return wrong("The flag %s is true or false, which decides whether it is on the command line at all and would show. Such a value cannot be sensitive.", name)
		}
		if plain.True() {
			*l = append(*l, engineFlag{name, nil})
		}
		return fits
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		values, w := elements(v, asText)
		for _, value := range values {
			*l = append(*l, engineFlag{name, &value})
		}
		return w
	case t.IsObjectType() || t.IsMapType():
		s, ok := asJSON(plain)
		if !ok {
			return wrong("The value of %s has no form as JSON.", name)
		}
		value := provision.Plain(s)
		if v.ContainsMarked() {
			value = provision.Secret(s)
		}
		*l = append(*l, engineFlag{name, &value})
		return fits
	default:
		value, w := asText(v)
		*l = append(*l, engineFlag{name, &value})
		return w
	}
}

// entries calls do for each entry of an object or map, sorted by name, and
// collects what is wrong with the first wrong one.
func entries(v cty.Value, do func(name string, e cty.Value) *wrongValue) *wrongValue {
	if t := v.Type(); v.IsMarked() || !t.IsObjectType() && !t.IsMapType() {
		return &wrongValue{}
	}
	var first *wrongValue
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		name := k.AsString()
		if w := do(name, e); w != fits && first == fits {
			first = w
			if first.hint == "" {
				plain, _ := e.Unmark()
				first.hint = fmt.Sprintf("The value of %s is %s.", name, describe(plain))
				if e.IsMarked() {
					first.hint = fmt.Sprintf("The value of %s does not fit.", name)
				}
			}
		}
	}
	return first
}

// elements converts each element of a list, tuple or set. A mark on the whole
// list is laid on each element.
func elements[T any](v cty.Value, do func(e cty.Value) (T, *wrongValue)) ([]T, *wrongValue) {
	plain, marks := v.Unmark()
	if t := plain.Type(); plain.IsNull() || !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
		return nil, &wrongValue{}
	}
	out := []T{}
	for it := plain.ElementIterator(); it.Next(); {
		_, e := it.Element()
		x, w := do(e.WithMarks(marks))
		if w != fits {
			if w.hint == "" && !e.IsMarked() && len(marks) == 0 {
				w.hint = fmt.Sprintf("Element %d is %s.", len(out)+1, describe(e))
			}
			return nil, w
		}
		out = append(out, x)
	}
	return out, fits
}

// asString converts texts, numbers and bools to text.
func asString(v cty.Value) (string, bool) {
	t, w := asText(v)
	return t.Reveal(), w == fits && !t.IsSecret()
}

// asText converts texts, numbers and bools; a marked value becomes a secret.
func asText(v cty.Value) (provision.Text, *wrongValue) {
	plain, marks := v.Unmark()
	if plain.IsNull() || !plain.Type().IsPrimitiveType() {
		return provision.Text{}, &wrongValue{}
	}
	var s string
	switch plain.Type() {
	case cty.String:
		s = plain.AsString()
	case cty.Bool:
		s = strconv.FormatBool(plain.True())
	case cty.Number:
		s = formatNumber(plain.AsBigFloat())
	}
	if strings.ContainsRune(s, 0) {
		return provision.Text{}, wrong("It holds a zero byte, which no command or environment can carry.")
	}
	if len(marks) > 0 {
		return provision.Secret(s), fits
	}
	return provision.Plain(s), fits
}

// formatNumber writes the shortest decimal. Very large and very small numbers
// are written with an exponent, or they would fill the memory.
func formatNumber(f *big.Float) string {
	if i, exact := f.Int64(); exact == big.Exact {
		return strconv.FormatInt(i, 10)
	}
	x, _ := f.Float64()
	if a := math.Abs(x); a != 0 && (a >= 1e21 || a < 1e-6) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func asFloat(v cty.Value) (float64, bool) {
	n, err := convert.Convert(v, cty.Number)
	if err != nil || n.IsNull() {
		return 0, false
	}
	f, _ := n.AsBigFloat().Float64()
	return f, !math.IsInf(f, 0)
}

// asJSON is the compact JSON text of a value without references in it.
func asJSON(v cty.Value) (string, bool) {
	v, _ = v.UnmarkDeep()
	b, err := ctyjson.Marshal(v, v.Type())
	if err != nil || !json.Valid(b) {
		return "", false
	}
	return string(b), true
}

// asDocument is the indented JSON text of an object, as a provision.Text. Members
// that are null are left out, and sensitive values are not shown.
func asDocument(v cty.Value) (any, *wrongValue) {
	if !isObject(v) {
		return nil, &wrongValue{}
	}
	members := map[string]cty.Value{}
	for name, m := range v.AsValueMap() {
		if plain, _ := m.Unmark(); !plain.IsNull() {
			members[name] = m
		}
	}
	v = cty.ObjectVal(members)
	var secrets []string
	clear, ok := asJSON(v)
	shown, also := asJSON(redacted(v, &secrets))
	if !ok || !also {
		return nil, wrong("Something in it has no form as JSON.")
	}
	if len(members) == 0 {
		return provision.Text{}, fits
	}
	return provision.Partly(indented(clear), indented(shown), secrets), fits
}

// redacted replaces what is sensitive in a value, and notes the texts in it.
func redacted(v cty.Value, secrets *[]string) cty.Value {
	switch {
	case v.IsMarked():
		plain, _ := v.UnmarkDeep()
		cty.Walk(plain, func(_ cty.Path, inner cty.Value) (bool, error) {
			if t, w := asText(inner); w == fits {
				*secrets = append(*secrets, t.Reveal())
			}
			return true, nil
		})
		return cty.StringVal(provision.Redacted)
	case v.IsNull():
		return v
	case v.Type().IsObjectType() || v.Type().IsMapType():
		members := map[string]cty.Value{}
		for it := v.ElementIterator(); it.Next(); { // in a fixed order
			name, m := it.Element()
			members[name.AsString()] = redacted(m, secrets)
		}
		return cty.ObjectVal(members)
	case v.Type().IsTupleType() || v.Type().IsListType() || v.Type().IsSetType():
		list := v.AsValueSlice()
		for i := range list {
			list[i] = redacted(list[i], secrets)
		}
		return cty.TupleVal(list)
	}
	return v
}

// indented is valid JSON as people read it.
func indented(text string) string {
	var b bytes.Buffer
	json.Indent(&b, []byte(text), "", "  ") // it is valid
	return b.String() + "\n"
}

var sizeForm = regexp.MustCompile(`^(\d+(?:\.\d+)?) ?([KMGT]i?)?B$`)

var sha256Form = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

// asStage reads one stage of a load.
func asStage(v cty.Value) (load.Stage, *wrongValue) {
	var s load.Stage
	paces := 0
	w := entries(v, func(name string, e cty.Value) *wrongValue {
		var k kind
		switch name {
		case "duration":
			k = duration
		case "rate":
			k = rate
		case "concurrency":
			k = whole(1, 1_000_000)
		default:
			return wrong("A stage has a duration, and a rate or a concurrency, and no %q.", name)
		}
		if e.IsNull() {
			return fits
		}
		x, w := k.convert(e)
		if w != fits {
			return wrong("The %s of a stage is %s, not %s.", name, k.want, describe(e))
		}
		switch x := x.(type) {
		case time.Duration:
			s.Duration = load.Duration(x)
		case load.Rate:
			s.Rate = x
			paces++
		case int64:
			s.Concurrency = int(x)
			paces++
		}
		return fits
	})
	switch {
	case w != fits:
		return s, w
	case s.Duration == 0:
		return s, wrong("Each stage needs a duration.")
	case paces != 1:
		return s, wrong("Each stage has either a rate or a concurrency.")
	}
	return s, fits
}

var numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// asRow reads a row of published numbers. A text that is a number counts as one,
// because CSV knows only texts; what is empty is left out.
func asRow(v cty.Value) (map[string]any, *wrongValue) {
	row := map[string]any{}
	return row, entries(v, func(name string, e cty.Value) *wrongValue {
		if e.IsNull() {
			return fits
		}
		switch e.Type() {
		case cty.Bool:
			row[name] = e.True()
		case cty.String:
			s := strings.TrimSpace(e.AsString())
			if i, err := strconv.ParseInt(s, 10, 64); err == nil && numberForm.MatchString(s) {
				row[name] = i
			} else if f, err := strconv.ParseFloat(s, 64); err == nil && numberForm.MatchString(s) {
				row[name] = f
			} else if s != "" {
				row[name] = s
			}
		case cty.Number:
			row[name] = axisValue(e)
		default:
			return wrong("In the column %q it holds %s, and a cell of a table is a number, a text, true or false.", name, describe(e))
		}
		return fits
	})
}

// parseSize reads "32GB" or "32GiB" into bytes.
func parseSize(s string) (int64, bool) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, false
	}
	unit := 1.0
	if m[2] != "" {
		base := 1000.0
		if strings.HasSuffix(m[2], "i") {
			base = 1024
		}
		unit = math.Pow(base, float64(strings.Index("KMGT", m[2][:1])+1))
	}
	n := f * unit
	return int64(n), n >= 1 && n < 1<<62
}

func parseMount(s string) (provision.Mount, *wrongValue) {
	parts := strings.Split(s, ":")
	m := provision.Mount{}
	switch {
	case len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw"):
		m.ReadOnly = parts[2] == "ro"
	case len(parts) != 2:
		return m, &wrongValue{}
	}
	m.Source, m.Target = parts[0], parts[1]
	if !strings.HasPrefix(m.Source, "/") && !strings.HasPrefix(m.Source, "~/") || !strings.HasPrefix(m.Target, "/") {
		return m, wrong("Both paths of %q must begin with a slash: what is on the host, then where it appears in the container.", s)
	}
	return m, fits
}

// wrongAddress says what is wrong with the address of a host, or "".
func wrongAddress(s string) string {
	if user, rest, ok := strings.Cut(s, "@"); ok {
		return fmt.Sprintf("The user has an argument of its own: address = %q, user = %q.", rest, user)
	}
	if _, rest, ok := strings.Cut(s, "://"); ok {
		return fmt.Sprintf("It is not a URL. Write only the host, and the port where it is not 22: %q.", rest)
	}
	if s == "" || strings.ContainsAny(s, " \t\n/\\\"'") {
		return `Write the host's name or IP address, with the port where it is not 22: "203.0.113.7" or "gpu1.example.com:2222".`
	}
	host, _, _ := strings.Cut(s, ":")
	if wrongNumbers(host) {
		return "The numbers of an IP address are between 0 and 255."
	}
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.Count(s, ":") == 1 {
		if port, err := strconv.Atoi(s[i+1:]); err != nil || port < 1 || port > 65535 || i == 0 {
			return fmt.Sprintf("%q is not a port. Write a number between 1 and 65535 after the colon, or nothing for 22.", s[i+1:])
		}
	}
	return ""
}

// describe names a value in a message: not its length, and never when it is
// sensitive.
func describe(v cty.Value) string {
	if v.ContainsMarked() {
		return provision.Redacted
	}
	if !v.IsKnown() {
		return "not known"
	}
	if v.IsNull() {
		return "null"
	}
	switch t := v.Type(); {
	case t == cty.String:
		s := v.AsString()
		if r := []rune(s); len(r) > 60 {
			s = string(r[:60]) + "…"
		}
		return strconv.Quote(s)
	case t == cty.Number:
		return formatNumber(v.AsBigFloat())
	case t == cty.Bool:
		return strconv.FormatBool(v.True())
	case t.IsListType() || t.IsTupleType() || t.IsSetType():
		return "a list"
	case t.IsObjectType() || t.IsMapType():
		if d := referred(v, ""); d != nil {
			return d.address
		}
		if g := groupOf(v); g != nil {
			return g.address
		}
		return "an object"
	default:
		return "something else"
	}
}
