package session

import (
	"encoding/json"
	"strings"

	"github.com/zlnode/zlnode/internal/errkind"
)

// errorTextMax bounds the message of an error frame, in bytes before escaping.
const errorTextMax = 512

// AppendError appends the whole frame of an Error that answers req: its
// sequence, correlation id and flow, codec JSON, and the body
// {"code","message"} with the kind's snake-case code. Clients want both
// non-blank, so a blank message is replaced by the kind's code; a long one is
// cut. The message reaches a client: it must tell nothing about the server's
// inside. req must be a decoded Request.
func AppendError(dst []byte, req *Packet, kind errkind.Kind, message string) ([]byte, error) {
	p := ResponseTo(req)
	p.Kind, p.Codec = KindError, CodecJSON
	var room [errorTextMax + 128]byte
	p.Payload = AppendErrorBody(room[:0], kind, message)
	return Append(dst, &p)
}

// AppendErrorBody appends the payload of an Error frame to dst, for callers that
// make the frame themselves. The rules for message are those of AppendError.
func AppendErrorBody(dst []byte, kind errkind.Kind, message string) []byte {
	message = cutText(message, errorTextMax)
	if strings.TrimSpace(message) == "" {
		message = kind.Code()
	}
	dst = append(dst, `{"code":"`...)
	dst = append(dst, kind.Code()...)
	dst = append(dst, `","message":"`...)
	dst = appendEscaped(dst, message)
	return append(dst, `"}`...)
}

// ParseErrorBody takes the payload of an Error packet apart. A code outside the
// closed set counts as InternalFailure, so that a newer server is understood;
// the message then begins with the code. A payload that is no such body is
// refused with ReasonErrorBody.
func ParseErrorBody(payload []byte) (kind errkind.Kind, message string, err error) {
	var body struct{ Code, Message *string }
	if json.Unmarshal(payload, &body) != nil || body.Code == nil || body.Message == nil {
		return 0, "", refuse(ReasonErrorBody)
	}
	kind, known := errkind.ParseCode(*body.Code)
	if !known {
		return kind, *body.Code + ": " + *body.Message, nil
	}
	return kind, *body.Message, nil
}

// appendEscaped appends valid UTF-8 as the inside of a JSON string.
func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
