package codec

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type gold int64

type inner struct {
	Own  gold           `json:"own"`
	Took time.Duration  `json:"took"`
	Any  any            `json:"any"`
	Map  map[int64]gold `json:"map"`
}

type everything struct {
	I64  int64   `json:"i64"`
	U64  uint64  `json:"u64"`
	I    int     `json:"i"`
	I32  int32   `json:"i32"`
	F    float64 `json:"f"`
	S    string  `json:"s"`
	B    []byte  `json:"b"`
	List []int64 `json:"list"`
	Ptr  *int64  `json:"ptr"`
	In   inner   `json:"in"`
}

func full() everything {
	n := int64(math.MinInt64)
	return everything{
		I64: math.MaxInt64, U64: math.MaxUint64, I: 7, I32: -8, F: 1.5, S: "é\x00", B: []byte{0, 255}, List: []int64{1, 1 << 60}, Ptr: &n,
		In: inner{Own: 1 << 55, Took: time.Second, Any: "x", Map: map[int64]gold{5: 1 << 54}},
	}
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	for _, codec := range []uint8{JSON, MessagePack} {
		want, got := full(), everything{}
		b, err := Encode(codec, want)
		if err != nil {
			t.Fatal(codec, err)
		}
		if err := Decode(codec, b, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("codec %d: %s is %+v, %v; want %+v", codec, b, got, err, want)
		}
	}
}

func TestJSONHasStringsForIntegersOf64Bits(t *testing.T) {
	b, err := Encode(JSON, full())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"i64":"9223372036854775807"`, `"u64":"18446744073709551615"`, `"i":7`, `"i32":-8`, `"f":1.5`, `"b":"AP8="`,
		`"list":["1","1152921504606846976"]`, `"ptr":"-9223372036854775808"`, `"own":"36028797018963968"`, `"took":"1000000000"`,
		`"map":{"5":"18014398509481984"}`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s lacks %s", b, want)
		}
	}
	small, err := Encode(JSON, struct {
		A int64 `json:"a"`
	}{5})
	if err != nil || string(small) != `{"a":"5"}` {
		t.Errorf("got %s, %v", small, err)
	}
}

func TestJSONTakesNumbersAndStrings(t *testing.T) {
	for _, text := range []string{`{"i64":5,"u64":6,"in":{"own":7}}`, `{"i64":"5","u64":"6","in":{"own":"7"}}`} {
		var v everything
		if err := Decode(JSON, []byte(text), &v); err != nil || v.I64 != 5 || v.U64 != 6 || v.In.Own != 7 {
			t.Errorf("%s is %+v, %v", text, v, err)
		}
	}
	v := everything{}
	if err := Decode(JSON, []byte(`{"i64":null}`), &v); err != nil || v.I64 != 0 {
		t.Errorf("null is %d, %v", v.I64, err)
	}
}

func TestBadPayloadsAreErrors(t *testing.T) {
	for codec, texts := range map[uint8][]string{
		JSON: {
			`{"i64":`, `{"i64":1} x`, `{"i64":1.5}`, `{"i64":"x"}`, `{"i64":true}`, `{"i64":9223372036854775808}`, `{"u64":-1}`,
			`{"i64":1,"i64":2}`, "{\"s\":\"\xff\"}", `[`, `{"in":{"own":{}}}`,
		},
		MessagePack: {"\xc1", "\x81\xa3i64", "\x01\x02", "\x81\xa3i64\xa1x"},
		7:           {"x"},
	} {
		for _, text := range texts {
			var v everything
			if err := Decode(codec, []byte(text), &v); err == nil {
				t.Errorf("codec %d takes %q as %+v", codec, text, v)
			}
		}
	}
}

func TestProtobufInItsForms(t *testing.T) {
	for _, codec := range []uint8{Protobuf, JSON} {
		want := wrapperspb.Int64(1 << 60)
		b, err := Encode(codec, want)
		if err != nil {
			t.Fatal(err)
		}
		var made *wrapperspb.Int64Value // as a handler's message type
		if err := Decode(codec, b, &made); err != nil || !proto.Equal(made, want) {
			t.Errorf("codec %d: %v, %v", codec, made, err)
		}
		given := &wrapperspb.Int64Value{}
		if err := Decode(codec, b, given); err != nil || !proto.Equal(given, want) {
			t.Errorf("codec %d: %v, %v", codec, given, err)
		}
	}
	var empty *wrapperspb.Int64Value
	if err := Decode(Protobuf, nil, &empty); err != nil || empty == nil {
		t.Errorf("no bytes are %v, %v", empty, err)
	}
	if err := Decode(Protobuf, []byte{0xff}, &empty); err == nil {
		t.Error("bad bytes are taken")
	}
}

func TestValuesThatACodecCannotHave(t *testing.T) {
	if _, err := Encode(Protobuf, 5); !errors.Is(err, ErrNotProto) {
		t.Error(err)
	}
	var n int
	if err := Decode(Protobuf, nil, &n); !errors.Is(err, ErrNotProto) {
		t.Error(err)
	}
	if _, err := Encode(Raw, "text"); !errors.Is(err, ErrNotBytes) {
		t.Error(err)
	}
	if err := Decode(Raw, []byte("x"), &n); !errors.Is(err, ErrNotBytes) {
		t.Error(err)
	}
	if _, err := Encode(JSON, make(chan int)); err == nil {
		t.Error("a channel is JSON")
	}
	if _, err := Encode(9, 1); err == nil {
		t.Error("codec 9 is known")
	}
}

func TestRawIsCopiedWhenItIsDecoded(t *testing.T) {
	type block []byte
	payload := []byte("bytes")
	var v block
	if err := Decode(Raw, payload, &v); err != nil {
		t.Fatal(err)
	}
	payload[0] = 'X'
	if string(v) != "bytes" {
		t.Errorf("got %q", v)
	}
	if b, err := Encode(Raw, v); err != nil || &b[0] != &v[0] {
		t.Errorf("raw bytes are not as they were: %q, %v", b, err)
	}
}

func TestAnEmptyPayloadIsTheZeroValue(t *testing.T) {
	for codec := range uint8(3) {
		v := []byte{}
		if err := Decode(codec, nil, &v); err != nil || len(v) != 0 {
			t.Errorf("codec %d: %v, %v", codec, v, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for codec := range uint8(4) {
		f.Add(codec, []byte(`{"i64":"5"}`))
	}
	f.Fuzz(func(t *testing.T, codec uint8, payload []byte) {
		var v everything
		if codec%4 == Protobuf || Decode(codec%4, payload, &v) != nil || codec%4 == Raw {
			return
		}
		b, err := Encode(codec%4, v)
		if err != nil {
			t.Fatal(err)
		}
		var again everything
		if err := Decode(codec%4, b, &again); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkJSON(b *testing.B) {
	type move struct {
		X    float64 `json:"x"`
		Y    float64 `json:"y"`
		Tick int64   `json:"tick"`
	}
	b.ReportAllocs()
	for b.Loop() {
		p, err := Encode(JSON, move{1, 2, 3})
		if err != nil {
			b.Fatal(err)
		}
		var m move
		if err := Decode(JSON, p, &m); err != nil {
			b.Fatal(err)
		}
	}
}
