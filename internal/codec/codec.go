// Package codec encodes and decodes the values of typed messages. The numbers are those
// of the wire.
//
//	Raw          []byte and types of it, as they are
//	JSON         64-bit integers are decimal strings, bytes are base64; a
//	             proto.Message is in its own JSON form. Integers are taken as numbers
//	             and as strings; names of members are case-sensitive.
//	MessagePack  structs as maps, by the names that JSON has
//	Protobuf     values that implement proto.Message
//
// An empty payload is the zero value. What Decode gives refers to none of the payload's
// bytes, so it may be kept. All functions are safe for concurrent use.
package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The codecs.
const (
	Raw         = 0
	JSON        = 1
	MessagePack = 2
	Protobuf    = 3
)

// ErrNotProto is the error of a value that Protobuf cannot encode or decode.
var ErrNotProto = errors.New("is no proto.Message")

// ErrNotBytes is that of Raw.
var ErrNotBytes = errors.New("is no []byte")

// Encode returns v's bytes, which are the caller's, except with Raw: then they are v.
func Encode(codec uint8, v any) ([]byte, error) {
	switch codec {
	case Raw:
		if r := reflect.ValueOf(v); r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8 {
			return r.Bytes(), nil
		}
		return nil, ErrNotBytes
	case JSON:
		if m, ok := v.(proto.Message); ok {
			return protojson.Marshal(m)
		}
		return encodeJSON(v)
	case MessagePack:
		return encodeMessagePack(v)
	case Protobuf:
		if m, ok := v.(proto.Message); ok {
			return proto.Marshal(m)
		}
		return nil, ErrNotProto
	}
	return nil, unknown(codec)
}

// Decode reads payload into what v points at.
func Decode(codec uint8, payload []byte, v any) error {
	m := message(v)
	switch {
	case codec > Protobuf:
		return unknown(codec)
	case codec == Protobuf && m == nil:
		return ErrNotProto
	case len(payload) == 0 && m == nil, len(payload) == 0 && codec == JSON:
		return nil
	}
	switch codec {
	case JSON:
		if m != nil {
			return protojson.Unmarshal(payload, m)
		}
		return decodeJSON(payload, v)
	case MessagePack:
		return decodeMessagePack(payload, v)
	case Protobuf:
		return proto.Unmarshal(payload, m)
	}
	r := reflect.ValueOf(v).Elem()
	if r.Kind() != reflect.Slice || r.Type().Elem().Kind() != reflect.Uint8 {
		return ErrNotBytes
	}
	r.SetBytes(bytes.Clone(payload))
	return nil
}

// message returns the proto.Message that v is or points at, made if it is nil.
func message(v any) proto.Message {
	if m, ok := v.(proto.Message); ok {
		return m
	}
	r := reflect.ValueOf(v).Elem()
	m, ok := r.Interface().(proto.Message)
	if !ok {
		return nil
	}
	if r.Kind() == reflect.Pointer && r.IsNil() {
		r.Set(reflect.New(r.Type().Elem()))
		m = r.Interface().(proto.Message)
	}
	return m
}

func unknown(codec uint8) error { return fmt.Errorf("codec %d is not known", codec) }

func encodeMessagePack(v any) ([]byte, error) {
	var b bytes.Buffer
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(&b)
	e.SetCustomStructTag("json")
	e.UseCompactInts(true)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func decodeMessagePack(payload []byte, v any) error {
	r := bytes.NewReader(payload)
	d := msgpack.GetDecoder()
	defer msgpack.PutDecoder(d)
	d.Reset(r)
	d.SetCustomStructTag("json")
	if err := d.Decode(v); err != nil {
		return err
	}
	if n := r.Len(); n > 0 {
		return fmt.Errorf("%d bytes follow the value", n)
	}
	return nil
}
