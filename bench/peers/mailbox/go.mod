module bench/mailbox

go 1.26.0

require github.com/zlnode/zlnode v0.0.0

replace github.com/zlnode/zlnode => ../../..
