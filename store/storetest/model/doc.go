// Package model is a Location Store in memory that is small and plain enough to be
// seen right. It is for tests, as the second opinion on the real one, and for the
// simulator; nothing of the product uses it, and nothing in it outlives the process.
//
// It knows rows, leases and descriptors only. Who is a member of a Spot, what is
// reserved at a process, how many slots are in use: all that is computed from the rows
// whenever it is asked for, so it cannot disagree with them. Every row says its owner
// itself: the commit of a SpotWide Spot writes all its members.
package model
