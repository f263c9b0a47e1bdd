// Package summary selects the part of a conversation that a summary replaces, and renders it as text.
// Package work asks a model for the summary, and the machine records it.
//
// Guarantees:
//
//  1. A cut never separates a call from its outcome: a model turn with its outcomes is one unit, and so is a delivery.
//  2. The newest units stay, about as many as the requested tokens and at least the last. The delivery being answered always
//     stays.
//  3. The text never exceeds its bound. Long outcomes are shortened and the oldest lines omitted, each with a mark.
//
// The package is pure and safe for concurrent use.
package summary
