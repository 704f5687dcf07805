package lang

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"hclbench/provision"
)

// misfit says why a value does not fit, in more detail than its kind's want.
type misfit string

func (m misfit) Error() string { return string(m) }

// NoFit is a misfit of which the kind's want says all.
const NoFit misfit = ""

// Wrong is an error that says, in a full sentence, why a value does not fit its kind.
func Wrong(format string, args ...any) error { return misfit(fmt.Sprintf(format, args...)) }

// Identity is what a value that stands for a block knows of it.
type Identity struct {
	Address  string // "engine.vllm.h200", "var.x", "local.y"; of an instance of for_each, engine.vllm.all["a"]
	axis     string // what shows of it as a value of an axis
	repeated string // of an instance, the address of all of them
	block    any    // *Declared
}

// identityType carries it inside the object that expressions see.
var identityType = cty.Capsule("reference", reflect.TypeFor[Identity]())

// identityName is the attribute that holds it; no identifier can name it.
const identityName = "(reference)"

// identityOf is the identity of the block that an object stands for; nil: it stands for none.
func identityOf(v cty.Value) *Identity {
	v, _ = v.Unmark()
	if !v.IsKnown() || v.IsNull() || !v.Type().IsObjectType() || !v.Type().HasAttribute(identityName) {
		return nil
	}
	id := v.GetAttr(identityName)
	if id.Type() != identityType || !id.IsKnown() || id.IsNull() {
		return nil
	}
	return id.EncapsulatedValue().(*Identity)
}

// IsObject reports whether a value is known and not sensitive as a whole, and has named members.
func IsObject(v cty.Value) bool {
	return v.IsKnown() && !v.IsMarked() && !v.IsNull() && (v.Type().IsObjectType() || v.Type().IsMapType())
}

// IsList reports whether a value is a list, a tuple or a set; known or not.
func IsList(v cty.Value) bool {
	t := v.Type()
	return !v.IsNull() && (t.IsTupleType() || t.IsListType() || t.IsSetType())
}

// Entries calls do for each entry of an object, sorted, and returns the first mistake.
func Entries(v cty.Value, do func(name string, e cty.Value) error) error {
	if !IsObject(v) {
		return NoFit
	}
	var first error
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		name := k.AsString()
		err := do(name, e)
		if errors.Is(err, NoFit) {
			err = Wrong("The value of %s is %s.", name, Describe(e))
			if e.IsMarked() {
				err = Wrong("The value of %s does not fit.", name)
			}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Elements converts each element of a list, tuple or set. A mark on the whole is laid on each.
func Elements[T any](v cty.Value, do func(e cty.Value) (T, error)) ([]T, error) {
	plain, marks := v.Unmark()
	if !IsList(plain) {
		return nil, NoFit
	}
	out := []T{}
	for it := plain.ElementIterator(); it.Next(); {
		_, e := it.Element()
		x, err := do(e.WithMarks(marks))
		if errors.Is(err, NoFit) && !e.IsMarked() && len(marks) == 0 {
			err = Wrong("Element %d is %s.", len(out)+1, Describe(e))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// AsText converts texts, numbers and bools; a marked value becomes a secret.
func AsText(v cty.Value) (provision.Text, error) {
	plain, marks := v.Unmark()
	if plain.IsNull() || !plain.Type().IsPrimitiveType() {
		return provision.Text{}, NoFit
	}
	var s string
	switch plain.Type() {
	case cty.String:
		s = plain.AsString()
	case cty.Bool:
		s = strconv.FormatBool(plain.True())
	case cty.Number:
		s = FormatNumber(plain.AsBigFloat())
	}
	switch {
	case strings.ContainsRune(s, 0):
		return provision.Text{}, Wrong("It holds a zero byte, which no command or environment can carry.")
	case len(marks) > 0:
		return provision.Secret(s), nil
	}
	return provision.Plain(s), nil
}

// AsPlainText is asText for what is shown.
func AsPlainText(v cty.Value) (string, error) {
	if s, ok := AsString(v); ok {
		return s, nil
	}
	return "", NoFit
}

// AsString is a text, or a number or bool as its text; false for all else, and for what is sensitive.
func AsString(v cty.Value) (string, bool) {
	t, err := AsText(v)
	return t.Reveal(), err == nil && !t.IsSecret()
}

func asBool(v cty.Value) (bool, error) {
	b, err := convert.Convert(v, cty.Bool)
	if err != nil || b.IsNull() {
		return false, NoFit
	}
	return b.True(), nil
}

func asNumber(v cty.Value) (n *big.Float, ok bool) {
	v, err := convert.Convert(v, cty.Number)
	if err != nil || v.IsNull() {
		return nil, false
	}
	return v.AsBigFloat(), true
}

// AsFloat is a number, or a text that is one; false for all else, and beyond a float64.
func AsFloat(v cty.Value) (float64, bool) {
	n, ok := asNumber(v)
	if !ok {
		return 0, false
	}
	f, _ := n.Float64()
	return f, !math.IsInf(f, 0)
}

// FormatNumber writes the shortest decimal; with an exponent what would fill the memory.
func FormatNumber(f *big.Float) string {
	if i, exact := f.Int64(); exact == big.Exact {
		return strconv.FormatInt(i, 10)
	}
	x, _ := f.Float64()
	if a := math.Abs(x); a != 0 && (a >= 1e21 || a < 1e-6) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// AsJSON is the compact JSON text of a value without references in it.
func AsJSON(v cty.Value) (string, error) {
	v, _ = v.UnmarkDeep()
	b, err := ctyjson.Marshal(v, v.Type())
	if err != nil || !json.Valid(b) {
		return "", Wrong("Something in it has no form as JSON.")
	}
	return string(b), nil
}

var sizeForm = regexp.MustCompile(`^(\d+(?:\.\d+)?) ?(?:([KMGT])(i?))?B$`)

// parseSize reads "32GB" or "32GiB" into bytes.
func parseSize(s string) (int64, error) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, NoFit
	}
	base := 1000.0
	if m[3] == "i" {
		base = 1024
	}
	n, err := strconv.ParseFloat(m[1], 64)
	n *= math.Pow(base, float64(strings.Index(" KMGT", cmp.Or(m[2], " "))))
	if err != nil || n < 1 || n >= 1<<62 {
		return 0, NoFit
	}
	return int64(n), nil
}

// MaxShown bounds how much of a text a message quotes, in characters.
const MaxShown = 60

// Describe names a value in a message: no long text whole, and nothing that is sensitive.
func Describe(v cty.Value) string {
	switch t := v.Type(); {
	case v.ContainsMarked():
		return provision.Redacted
	case !v.IsKnown():
		return "not known"
	case v.IsNull():
		return "null"
	case t == cty.String:
		s := v.AsString()
		if r := []rune(s); len(r) > MaxShown {
			s = string(r[:MaxShown]) + "…"
		}
		return strconv.Quote(s)
	case t == cty.Number:
		return FormatNumber(v.AsBigFloat())
	case t == cty.Bool:
		return strconv.FormatBool(v.True())
	case IsList(v):
		return "a list"
	case IsObject(v):
		if id := identityOf(v); id != nil {
			return id.Address
		}
		if it := v.ElementIterator(); it.Next() { // of a block with for_each, an instance
			_, first := it.Element()
			if id := identityOf(first); id != nil && id.repeated != "" {
				return id.repeated
			}
		}
		return "an object"
	}
	return "something else"
}

// Scalar is a value of an axis as a Config holds it; nil for what cannot be one.
func Scalar(v cty.Value) any {
	if id := identityOf(v); id != nil {
		return id.axis
	}
	if !v.IsKnown() || v.IsNull() {
		return nil
	}
	switch v.Type() {
	case cty.String:
		return v.AsString()
	case cty.Bool:
		return v.True()
	case cty.Number:
		f := v.AsBigFloat()
		if i, exact := f.Int64(); exact == big.Exact {
			return i
		}
		if x, _ := f.Float64(); !math.IsInf(x, 0) {
			return x
		}
	}
	return nil
}

// A value is bounded, so that a lab that doubles a text forty times cannot take all of
// the machine's memory.
const (
	maxText  = 64 << 20
	maxParts = 1_000_000
)

// tooLarge walks a value no further than it takes to know.
func tooLarge(v cty.Value) bool {
	text, parts := 0, 0
	var walk func(v cty.Value) bool
	walk = func(v cty.Value) bool {
		v, _ = v.Unmark()
		if parts++; parts > maxParts {
			return true
		}
		if !v.IsKnown() || v.IsNull() {
			return false
		}
		switch t := v.Type(); {
		case t == cty.String:
			text += len(v.AsString())
			return text > maxText
		case t.IsObjectType() && t.HasAttribute(identityName):
			return false // a block: each of its arguments was looked at
		case v.CanIterateElements():
			for it := v.ElementIterator(); it.Next(); {
				if _, e := it.Element(); walk(e) {
					return true
				}
			}
		}
		return false
	}
	return walk(v)
}

// asObject is the JSON text of an object.
func asObject(v cty.Value) (string, error) {
	if !IsObject(v) {
		return "", NoFit
	}
	return AsJSON(v)
}

// AsDocument is the indented JSON text of an object, without members that are null.
func AsDocument(v cty.Value) (provision.Text, error) {
	if !IsObject(v) {
		return provision.Text{}, NoFit
	}
	members := v.AsValueMap()
	maps.DeleteFunc(members, func(_ string, m cty.Value) bool { return m.IsNull() })
	if len(members) == 0 {
		return provision.Text{}, nil
	}
	v = cty.ObjectVal(members)
	clear, err := AsJSON(v)
	if err != nil {
		return provision.Text{}, err
	}
	var secrets []string
	shown, err := AsJSON(Redacted(v, &secrets))
	return provision.Partly(indented(clear), indented(shown), secrets), err
}

// Redacted replaces what is sensitive in a value, and notes the texts in it.
func Redacted(v cty.Value, secrets *[]string) cty.Value {
	switch {
	case v.IsMarked():
		plain, _ := v.UnmarkDeep()
		cty.Walk(plain, func(_ cty.Path, inner cty.Value) (bool, error) {
			if t, err := AsText(inner); err == nil {
				*secrets = append(*secrets, t.Reveal())
			}
			return true, nil
		})
		return cty.StringVal(provision.Redacted)
	case IsObject(v):
		members := map[string]cty.Value{}
		for it := v.ElementIterator(); it.Next(); { // in a fixed order
			name, m := it.Element()
			members[name.AsString()] = Redacted(m, secrets)
		}
		return cty.ObjectVal(members)
	case IsList(v):
		list := v.AsValueSlice()
		for i := range list {
			list[i] = Redacted(list[i], secrets)
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
