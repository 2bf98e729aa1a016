// Package topic is who subscribes to what, and what nodes tell each other of it.
//
// A node has an Index of its own subscribers, and one of the links whose other end has
// some. What each link's other end knows of the first is a News; what it has said of its
// own, to fill the second, is a Heard. News and Heard are two ends of one protocol: what
// News says in order is what Heard accepts, and a Heard that has taken all of it has the
// topics that its News was told of, no others. See TestWhatIsToldConverges.
package topic
