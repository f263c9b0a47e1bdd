// Package eventstream reads and writes messages of the binary framing
// application/vnd.amazon.eventstream.
//
// Codecs of providers use it. It imports the standard library only.
//
// A message consists of the following, big endian: its length and that of its headers, 4 bytes each,
// the CRC-32 of these 8 bytes, headers, payload, and the CRC-32 of everything before. A header is the
// length of its name in a byte, the name, a byte for the type of its value, and the value. Texts have
// a 2-byte length prefix.
//
// Guarantees of Reader:
//
//  1. A message is returned as soon as its last byte arrives, if both checksums are correct and its
//     headers have the declared length.
//  2. The length of a message is used only after its checksum is verified. Memory is allocated as
//     bytes arrive, up to the limit; a message over it is a *FormatError.
//  3. A stream that ends within a message ends with io.ErrUnexpectedEOF, between two with io.EOF.
//     Other errors of the source are returned unchanged.
//
// A Reader belongs to one goroutine and starts none.
package eventstream
