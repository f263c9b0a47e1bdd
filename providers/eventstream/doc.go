// Package eventstream reads and writes messages of the binary framing
// application/vnd.amazon.eventstream, in which some vendors stream.
//
// Codecs of providers call it; it calls nothing but the standard library.
//
// A message is, big endian: its length and that of its headers, 4 bytes each, the CRC-32
// of these 8 bytes, headers, payload, and the CRC-32 of all before. A header is the length
// of its name in a byte, the name, a byte for the type of its value, and the value; texts
// have their length in 2 bytes before them.
//
// Guarantees of Reader:
//
//  1. A message is returned as soon as its last byte is there, and only if both checksums
//     are right and its headers fill the room that they claim.
//  2. The length of a message is believed once its own checksum is right. Memory is taken
//     as bytes arrive, up to the limit; a message over it is a *FormatError.
//  3. A stream that ends within a message ends with io.ErrUnexpectedEOF, between two with
//     io.EOF; what else its source ends with is returned as it is.
//
// A Reader belongs to one goroutine and starts none. It holds nothing that matters after a
// crash.
package eventstream
