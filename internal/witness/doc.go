// Package witness keeps what processes did where the end of a process does not reach it: in
// files that are mapped into memory, a record of 64 bytes for each thing that happened, with
// the time by a clock that all processes of a machine share. A process that is killed leaves
// all that it wrote. Check reads the files of all processes together and finds what breaks
// the promises of moves:
//
//	I1  an object is open at one process at most, and no two turns of it overlap
//	I2  what one client sends is executed in its order
//	I3  what was accepted is executed once; of a process that died, at most once
//	I4  behind the boundary of its move the source runs no turn of an object
//	I6  an operation ends once, and who asked and who did it agree
//	I13 a Join's callbacks come in their order, and each once; no other move has any
//	I14 a turn finds what the turn before has left
//	I16 a process that says that all has left it runs nothing more
package witness
