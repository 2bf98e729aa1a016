package codec

import (
	"encoding"
	"errors"
	"reflect"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Integers of 64 bits are strings, since JavaScript's numbers cannot hold them. For int64
// and uint64 themselves this costs other values nothing. For types that an application
// makes of them each value must be looked at, so that is done only for messages that
// have such types.
var (
	plain = json.JoinOptions(
		json.WithMarshalers(json.JoinMarshalers(json.MarshalToFunc(writeInt), json.MarshalToFunc(writeUint))),
		json.WithUnmarshalers(json.JoinUnmarshalers(json.UnmarshalFromFunc(readInt), json.UnmarshalFromFunc(readUint))),
	)
	thorough = json.JoinOptions(
		json.WithMarshalers(json.MarshalToFunc(writeAny)),
		json.WithUnmarshalers(json.UnmarshalFromFunc(readAny)),
	)
)

func encodeJSON(v any) ([]byte, error) { return json.Marshal(v, optionsFor(reflect.TypeOf(v))) }

func decodeJSON(payload []byte, v any) error {
	return json.Unmarshal(payload, v, optionsFor(reflect.TypeOf(v)))
}

func writeInt(e *jsontext.Encoder, v int64) error {
	return e.WriteToken(jsontext.String(strconv.FormatInt(v, 10)))
}

func writeUint(e *jsontext.Encoder, v uint64) error {
	return e.WriteToken(jsontext.String(strconv.FormatUint(v, 10)))
}

func readInt(d *jsontext.Decoder, v *int64) (err error) {
	text, err := number(d)
	if err == nil {
		*v, err = strconv.ParseInt(text, 10, 64)
	}
	return err
}

func readUint(d *jsontext.Decoder, v *uint64) (err error) {
	text, err := number(d)
	if err == nil {
		*v, err = strconv.ParseUint(text, 10, 64)
	}
	return err
}

// number reads a number or the string of one; null is 0.
func number(d *jsontext.Decoder) (string, error) {
	switch t, err := d.ReadToken(); {
	case err != nil:
		return "", err
	case t.Kind() == '0', t.Kind() == '"':
		return t.String(), nil
	case t.Kind() == 'n':
		return "0", nil
	default:
		return "", errors.New("is no number")
	}
}

// writeAny writes integers of 64 bits, of whatever type, and leaves all else.
func writeAny(e *jsontext.Encoder, v any) error {
	switch r := reflect.ValueOf(v).Elem(); {
	case !isWide(r.Type()):
		return errors.ErrUnsupported
	case r.CanInt():
		return writeInt(e, r.Int())
	default:
		return writeUint(e, r.Uint())
	}
}

func readAny(d *jsontext.Decoder, v any) error {
	r := reflect.ValueOf(v).Elem()
	switch {
	case !isWide(r.Type()):
		return errors.ErrUnsupported
	case r.CanInt():
		var n int64
		err := readInt(d, &n)
		r.SetInt(n)
		return err
	default:
		var n uint64
		err := readUint(d, &n)
		r.SetUint(n)
		return err
	}
}

var codedByType = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.MarshalerTo](), reflect.TypeFor[encoding.TextMarshaler](),
	reflect.TypeFor[encoding.TextAppender](),
}

// isWide reports whether t is an integer of 64 bits without a form of its own.
func isWide(t reflect.Type) bool {
	if k := t.Kind(); k != reflect.Int64 && k != reflect.Uint64 {
		return false
	}
	for _, i := range codedByType {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return false
		}
	}
	return true
}

var known sync.Map // reflect.Type → json.Options; as many as the program has types of messages

func optionsFor(t reflect.Type) json.Options {
	if o, ok := known.Load(t); ok {
		return o.(json.Options)
	}
	o := plain
	if hasOwn(t, map[reflect.Type]bool{}) {
		o = thorough
	}
	known.Store(t, o)
	return o
}

// hasOwn reports whether a value of type t may hold a 64-bit integer of another type than
// int64 and uint64.
func hasOwn(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == nil || seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() { //nolint:exhaustive // the other kinds hold no integers
	case reflect.Int64, reflect.Uint64:
		return t != reflect.TypeFor[int64]() && t != reflect.TypeFor[uint64]()
	case reflect.Interface:
		return true
	case reflect.Array, reflect.Pointer, reflect.Slice, reflect.Map:
		return hasOwn(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if hasOwn(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}
