package wire

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The golden vectors fix the bytes of every record for other implementations.
//
//	record <type>      fields one per line, as `name = value`
//	refuse             hex from the command on; the length is put before it
//	refuse whole       hex of a whole record
//
// `record` encodes the fields, prints the bytes, decodes them again and demands
// the very fields back. `refuse` prints the error.
func TestGoldenVectors(t *testing.T) {
	seen := map[Command]bool{}
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "record":
				return goldenRecord(t, d, seen)
			case "refuse":
				return goldenRefuse(t, d)
			default:
				t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
				return ""
			}
		})
	})
	for cmd := range samples() {
		if !seen[cmd] {
			t.Errorf("no golden vector of %v", cmd)
		}
	}
}

func goldenRecord(t *testing.T, d *datadriven.TestData, seen map[Command]bool) string {
	rec := newRecord(t, d, d.CmdArgs[0].Key)
	parseFields(t, d, reflect.ValueOf(rec).Elem())
	bytes := rec.AppendTo(nil)
	if len(bytes) != rec.Size() {
		t.Errorf("%s: Size says %d, the record has %d bytes", d.Pos, rec.Size(), len(bytes))
	}
	var back Record
	var err error
	switch rec.(type) {
	case *CreateResult:
		back, err = boxed(DecodeCreateResult(bytes))
	case *AdmitResult:
		back, err = boxed(DecodeAdmitResult(bytes))
	case *MoveState:
		back, err = boxed(DecodeMoveState(bytes))
	case *AggregateHead:
		back, err = whole(DecodeAggregateHead(bytes))
	case *AggregatePart:
		back, err = whole(DecodeAggregatePart(bytes))
	default:
		seen[Command(bytes[4])] = true
		back, err = Decode(bytes)
	}
	if err != nil {
		t.Fatalf("%s: encoded record is refused: %v", d.Pos, err)
	}
	if got := printFields("", reflect.ValueOf(back).Elem()); got != strings.TrimSpace(d.Input) {
		t.Errorf("%s: decoded fields\n%s\nwant\n%s", d.Pos, got, d.Input)
	}
	return printHex(bytes)
}

// whole is for what others may follow, which here nothing does.
func whole[T any, P interface {
	*T
	Record
}](v T, rest []byte, err error) (Record, error) {
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes are left", len(rest))
	}
	return P(&v), err
}

func goldenRefuse(t *testing.T, d *datadriven.TestData) string {
	bytes, err := hex.DecodeString(strings.Join(strings.Fields(d.Input), ""))
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	if !d.HasArg("whole") {
		bytes = append(appendU32(nil, uint32(len(bytes))), bytes...)
	}
	if _, err := RecordSize(bytes, MaxRecord); err != nil {
		return err.Error()
	}
	rec, err := Decode(bytes)
	if err == nil {
		return fmt.Sprintf("decoded: %+v", rec)
	}
	return err.Error()
}

func newRecord(t *testing.T, d *datadriven.TestData, name string) Record {
	all := []Record{&CreateResult{}, &AdmitResult{}, &MoveState{}, &AggregateHead{}, &AggregatePart{}}
	for _, recs := range samples() {
		all = append(all, recs[0])
	}
	i := slices.IndexFunc(all, func(r Record) bool { return reflect.TypeOf(r).Elem().Name() == name })
	if i < 0 {
		t.Fatalf("%s: no record type %q", d.Pos, name)
	}
	return reflect.New(reflect.TypeOf(all[i]).Elem()).Interface().(Record)
}

func parseFields(t *testing.T, d *datadriven.TestData, v reflect.Value) {
	for line := range strings.Lines(d.Input) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if !ok {
			t.Fatalf("%s: no field in %q", d.Pos, line)
		}
		f := v
		for part := range strings.SplitSeq(name, ".") {
			f = f.FieldByName(part)
		}
		var err error
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(text == "true")
		case reflect.Slice:
			var s string
			s, err = strconv.Unquote(text)
			f.SetBytes([]byte(s))
		case reflect.Array:
			var b []byte
			b, err = hex.DecodeString(text)
			reflect.Copy(f, reflect.ValueOf(b))
		default:
			var n uint64
			n, err = strconv.ParseUint(text, 10, 64)
			f.SetUint(n)
		}
		if err != nil {
			t.Fatalf("%s: field %s: %v", d.Pos, name, err)
		}
	}
}

// printFields writes every field, so that a vector leaves nothing unsaid.
func printFields(prefix string, v reflect.Value) string {
	var lines []string
	for i := range v.NumField() {
		name, f := prefix+v.Type().Field(i).Name, v.Field(i)
		switch f.Kind() {
		case reflect.Struct:
			inner := name + "."
			if v.Type().Field(i).Anonymous { // its fields are those of the record
				inner = prefix
			}
			lines = append(lines, printFields(inner, f))
		case reflect.Slice:
			lines = append(lines, name+" = "+strconv.Quote(string(f.Bytes())))
		case reflect.Array:
			lines = append(lines, fmt.Sprintf("%s = %x", name, f.Interface()))
		case reflect.Bool:
			lines = append(lines, fmt.Sprintf("%s = %v", name, f.Bool()))
		default:
			lines = append(lines, fmt.Sprintf("%s = %d", name, f.Uint()))
		}
	}
	return strings.Join(lines, "\n")
}

// printHex writes 32 bytes a line.
func printHex(b []byte) string {
	var s strings.Builder
	for chunk := range slices.Chunk(b, 32) {
		fmt.Fprintf(&s, "%x\n", chunk)
	}
	return s.String()
}
