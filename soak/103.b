=== RUN   TestFaultsOfARealNetwork
    harness_test.go:131: time=2026-11-30T08:16:46.051Z level=WARN msg="raft: failed to get previous log" previous-index=9 last-index=0 error="log not found"
    harness_test.go:131: time=2026-11-30T08:16:46.064Z level=WARN msg="raft: appendEntries rejected, sending older logs" peer="{Suffrage:Nonvoter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" next=1
    harness_test.go:131: time=2026-11-30T08:16:47.606Z level=WARN msg="raft: failed to get previous log" previous-index=15 last-index=0 error="log not found"
    faults_lab_linux_test.go:45: the owner, which is node 1, is cut off; the leader is 1
    harness_test.go:131: time=2026-11-30T08:16:51.210Z level=WARN msg="raft: failed to contact" server-id=node-2c8d88e4c4ea11e7 time=251.032514ms
    harness_test.go:131: time=2026-11-30T08:16:51.221Z level=WARN msg="raft: failed to contact quorum of nodes, stepping down"
    harness_test.go:131: time=2026-11-30T08:16:51.657Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=node-1683a837f00d0ea9 last-leader-id=node-1683a837f00d0ea9
    harness_test.go:131: time=2026-11-30T08:16:51.680Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-fd96e4f6018554bc leader=node-1683a837f00d0ea9 leader-id=node-1683a837f00d0ea9
    harness_test.go:131: time=2026-11-30T08:16:51.759Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr="" last-leader-id=""
    harness_test.go:131: time=2026-11-30T08:16:52.074Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
        time=2026-11-30T08:16:52.074Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:16:52.093Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=node-1683a837f00d0ea9 last-leader-id=node-1683a837f00d0ea9
    harness_test.go:131: time=2026-11-30T08:16:52.204Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:16:52.204Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:16:52.217Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:16:52.218Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:16:52.323Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:52.379Z level=WARN msg="raft: failed to contact" server-id=node-1683a837f00d0ea9 time=254.684094ms
    harness_test.go:131: time=2026-11-30T08:16:52.472Z level=WARN msg="raft: failed to heartbeat to" peer=node-2c8d88e4c4ea11e7 "backoff time"=10ms error="msgpack decode error [pos 888]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:52.537Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:16:52.768Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:53.158Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-1683a837f00d0ea9 Address:node-1683a837f00d0ea9}" error="msgpack decode error [pos 0]: deadline exceeded" term=3
    harness_test.go:131: time=2026-11-30T08:16:53.261Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" error="msgpack decode error [pos 0]: deadline exceeded" term=3
    harness_test.go:131: time=2026-11-30T08:16:53.600Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-1683a837f00d0ea9 Address:node-1683a837f00d0ea9}" error="msgpack decode error [pos 0]: deadline exceeded" term=3
    harness_test.go:131: time=2026-11-30T08:16:53.627Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-1683a837f00d0ea9 Address:node-1683a837f00d0ea9}" error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:53.730Z level=WARN msg="raft: failed to heartbeat to" peer=node-1683a837f00d0ea9 "backoff time"=10ms error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:54.323Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:54.341Z level=WARN msg="a node's lease was missed" node=node-1683a837f00d0ea9 incarnation=1 state=unreachable result=marked sessions=0
    harness_test.go:131: time=2026-11-30T08:16:54.359Z level=WARN msg="a node's lease was missed" node=node-1683a837f00d0ea9 incarnation=1 state=expired result=marked sessions=0
    harness_test.go:131: time=2026-11-30T08:16:54.684Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:54.769Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:55.568Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-1683a837f00d0ea9 during the call: mesh: cancelled"
        time=2026-11-30T08:16:55.570Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-1683a837f00d0ea9 during the call: mesh: cancelled from=node-1683a837f00d0ea9"
    harness_test.go:131: time=2026-11-30T08:16:55.576Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a dead message (from: node-fd96e4f6018554bc)"
    harness_test.go:131: time=2026-11-30T08:16:55.583Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-2c8d88e4c4ea11e7 during the call: mesh: cancelled from=node-2c8d88e4c4ea11e7"
    harness_test.go:131: time=2026-11-30T08:16:55.594Z level=WARN msg="this life of the node is over" incarnation=1
    harness_test.go:131: time=2026-11-30T08:16:55.596Z level=WARN msg="the mesh has given this node up: its sessions are ended" life=1 sessions=0
    harness_test.go:131: time=2026-11-30T08:16:55.605Z level=WARN msg="raft: rejecting pre-vote request since our last index is greater" candidate=node-2c8d88e4c4ea11e7 last-index=23 last-candidate-index=22
        time=2026-11-30T08:16:55.605Z level=WARN msg="raft: rejecting vote request since our last index is greater" candidate=node-2c8d88e4c4ea11e7 last-index=23 last-candidate-index=22
        time=2026-11-30T08:16:55.605Z level=WARN msg="raft: failed to get previous log" previous-index=24 last-index=23 error="log not found"
        time=2026-11-30T08:16:55.605Z level=WARN msg="raft: clearing log suffix" from=23 to=23
    harness_test.go:131: time=2026-11-30T08:16:55.606Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-2c8d88e4c4ea11e7 during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:16:55.710Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-2c8d88e4c4ea11e7)"
    harness_test.go:131: time=2026-11-30T08:16:55.840Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-2c8d88e4c4ea11e7)"
    faults_lab_linux_test.go:45: the leader, which is node 2, is cut off; the leader is 2
    harness_test.go:131: time=2026-11-30T08:16:56.084Z level=WARN msg="raft: failed to contact quorum of nodes, stepping down"
    harness_test.go:131: time=2026-11-30T08:16:56.285Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-1683a837f00d0ea9 leader=node-2c8d88e4c4ea11e7 leader-id=node-2c8d88e4c4ea11e7
    harness_test.go:131: time=2026-11-30T08:16:56.288Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-fd96e4f6018554bc during the call: mesh: cancelled from=node-fd96e4f6018554bc"
        time=2026-11-30T08:16:56.289Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-fd96e4f6018554bc leader=node-2c8d88e4c4ea11e7 leader-id=node-2c8d88e4c4ea11e7
    harness_test.go:131: time=2026-11-30T08:16:56.292Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-1683a837f00d0ea9 during the call: mesh: cancelled"
        time=2026-11-30T08:16:56.293Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-1683a837f00d0ea9 during the call: mesh: cancelled from=node-1683a837f00d0ea9"
    harness_test.go:131: time=2026-11-30T08:16:56.296Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-fd96e4f6018554bc during the call: mesh: cancelled from=node-fd96e4f6018554bc"
    harness_test.go:131: time=2026-11-30T08:16:56.894Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
        time=2026-11-30T08:16:56.894Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:16:57.216Z level=WARN msg="raft: failed to contact" server-id=node-2c8d88e4c4ea11e7 time=272.543535ms
    harness_test.go:131: time=2026-11-30T08:16:57.317Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
        time=2026-11-30T08:16:57.317Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:16:57.441Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:16:58.323Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:58.447Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:58.508Z level=WARN msg="raft: failed to heartbeat to" peer=node-2c8d88e4c4ea11e7 "backoff time"=10ms error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:58.684Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:16:59.181Z level=WARN msg="a node's lease was missed" node=node-2c8d88e4c4ea11e7 incarnation=1 state=unreachable result=marked sessions=0
    harness_test.go:131: time=2026-11-30T08:16:59.191Z level=WARN msg="a node's lease was missed" node=node-2c8d88e4c4ea11e7 incarnation=1 state=expired result=marked sessions=0
    harness_test.go:131: time=2026-11-30T08:16:59.765Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 3s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:00.325Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:00.470Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-2c8d88e4c4ea11e7)"
    harness_test.go:131: time=2026-11-30T08:17:00.472Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-2c8d88e4c4ea11e7 during the call: mesh: cancelled from=node-2c8d88e4c4ea11e7"
    harness_test.go:131: time=2026-11-30T08:17:00.504Z level=WARN msg="this life of the node is over" incarnation=1
        time=2026-11-30T08:17:00.504Z level=WARN msg="the mesh has given this node up: its sessions are ended" life=1 sessions=0
    harness_test.go:131: time=2026-11-30T08:17:00.509Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-fd96e4f6018554bc during the call: mesh: cancelled from=node-fd96e4f6018554bc"
    harness_test.go:131: time=2026-11-30T08:17:00.516Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-fd96e4f6018554bc during the call: mesh: cancelled from=node-fd96e4f6018554bc"
    faults_lab_linux_test.go:45: the owner, which is node 3, is deaf; the leader is 3
    harness_test.go:131: time=2026-11-30T08:17:00.584Z level=WARN msg="raft: failed to get previous log" previous-index=33 last-index=32 error="log not found"
    harness_test.go:131: time=2026-11-30T08:17:00.840Z level=WARN msg="raft: failed to contact quorum of nodes, stepping down"
    harness_test.go:131: time=2026-11-30T08:17:01.124Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-1683a837f00d0ea9 during the call: mesh: cancelled from=node-1683a837f00d0ea9"
    harness_test.go:131: time=2026-11-30T08:17:01.649Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:01.649Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:01.684Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-1683a837f00d0ea9 over TCP but UDP probes failed, network may be misconfigured"
    harness_test.go:131: time=2026-11-30T08:17:02.186Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:17:02.188Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-fd96e4f6018554bc leader=node-2c8d88e4c4ea11e7 leader-id=node-2c8d88e4c4ea11e7
    harness_test.go:131: time=2026-11-30T08:17:02.322Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:02.573Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-fd96e4f6018554bc)"
    harness_test.go:131: time=2026-11-30T08:17:02.765Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:03.687Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" error="msgpack decode error [pos 0]: deadline exceeded" term=5
    harness_test.go:131: time=2026-11-30T08:17:04.427Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-fd96e4f6018554bc Address:node-fd96e4f6018554bc}" error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:04.535Z level=WARN msg="raft: failed to heartbeat to" peer=node-fd96e4f6018554bc "backoff time"=10ms error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:04.729Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:04.803Z level=WARN msg="raft: failed to contact" server-id=node-1683a837f00d0ea9 time=257.572167ms
    harness_test.go:131: time=2026-11-30T08:17:05.109Z level=WARN msg="raft: rejecting pre-vote request since our last term is greater" candidate=node-fd96e4f6018554bc last-term=5 last-candidate-term=4
    harness_test.go:131: time=2026-11-30T08:17:05.184Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-2c8d88e4c4ea11e7)"
    harness_test.go:131: time=2026-11-30T08:17:05.314Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-2c8d88e4c4ea11e7 during the call: mesh: cancelled from=node-2c8d88e4c4ea11e7"
    harness_test.go:131: time=2026-11-30T08:17:05.325Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:05.337Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr="" last-leader-id=""
    harness_test.go:131: time=2026-11-30T08:17:05.363Z level=WARN msg="raft: rejecting vote request since our last term is greater" candidate=node-2c8d88e4c4ea11e7 last-term=5 last-candidate-term=4
    faults_lab_linux_test.go:45: the leader, which is node 2, is deaf; the leader is 2
    harness_test.go:131: time=2026-11-30T08:17:05.764Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-1683a837f00d0ea9 during the call: mesh: cancelled from=node-1683a837f00d0ea9"
    harness_test.go:131: time=2026-11-30T08:17:05.766Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:06.147Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=node-2c8d88e4c4ea11e7 last-leader-id=node-2c8d88e4c4ea11e7
    harness_test.go:131: time=2026-11-30T08:17:06.689Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-2c8d88e4c4ea11e7)"
    harness_test.go:131: time=2026-11-30T08:17:06.687Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:06.906Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=node-2c8d88e4c4ea11e7 last-leader-id=node-2c8d88e4c4ea11e7
    harness_test.go:131: time=2026-11-30T08:17:07.007Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=2
        time=2026-11-30T08:17:07.008Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:07.009Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=2
        time=2026-11-30T08:17:07.010Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:07.011Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
        time=2026-11-30T08:17:07.011Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:07.390Z level=WARN msg="raft: failed to contact" server-id=node-2c8d88e4c4ea11e7 time=268.613573ms
    harness_test.go:131: time=2026-11-30T08:17:07.404Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-2c8d88e4c4ea11e7 leader=node-fd96e4f6018554bc leader-id=node-fd96e4f6018554bc
    harness_test.go:131: time=2026-11-30T08:17:07.406Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-2c8d88e4c4ea11e7 leader=node-fd96e4f6018554bc leader-id=node-fd96e4f6018554bc
    harness_test.go:131: time=2026-11-30T08:17:07.657Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" error="msgpack decode error [pos 172]: deadline exceeded" term=7
    harness_test.go:131: time=2026-11-30T08:17:07.767Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:08.116Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-fd96e4f6018554bc Address:node-fd96e4f6018554bc}" error="msgpack decode error [pos 111]: deadline exceeded" term=7
    harness_test.go:131: time=2026-11-30T08:17:08.389Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:17:08.623Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:08.691Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:08.696Z level=WARN msg="raft: failed to heartbeat to" peer=node-2c8d88e4c4ea11e7 "backoff time"=10ms error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:10.154Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-fd96e4f6018554bc during the call: mesh: cancelled"
    faults_lab_linux_test.go:45: the owner, which is node 3, is mute; the leader is 3
    harness_test.go:131: time=2026-11-30T08:17:10.689Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-1683a837f00d0ea9 during the call: mesh: cancelled from=node-1683a837f00d0ea9"
    harness_test.go:131: time=2026-11-30T08:17:10.769Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-2c8d88e4c4ea11e7 over TCP but UDP probes failed, network may be misconfigured"
    harness_test.go:131: time=2026-11-30T08:17:11.108Z level=WARN msg="raft: failed to get previous log" previous-index=43 last-index=41 error="log not found"
    harness_test.go:131: time=2026-11-30T08:17:11.420Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:11.420Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:11.649Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: mesh: lost node-fd96e4f6018554bc during the call: timeout: no recent network activity"
    harness_test.go:131: time=2026-11-30T08:17:11.649Z level=WARN msg=gossip msg="[ERR] memberlist: Push/Pull with node-fd96e4f6018554bc failed: mesh: lost node-fd96e4f6018554bc during the call: timeout: no recent network activity"
    harness_test.go:131: time=2026-11-30T08:17:11.935Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-2c8d88e4c4ea11e7)"
    harness_test.go:131: time=2026-11-30T08:17:12.323Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:12.640Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:17:12.770Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:13.316Z level=WARN msg="a node's lease was missed" node=node-fd96e4f6018554bc incarnation=1 state=unreachable result=marked sessions=2
    harness_test.go:131: time=2026-11-30T08:17:13.403Z level=WARN msg="a node's lease was missed" node=node-fd96e4f6018554bc incarnation=1 state=expired result=marked sessions=2
    harness_test.go:131: time=2026-11-30T08:17:14.142Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" error="msgpack decode error [pos 0]: deadline exceeded" term=9
    harness_test.go:131: time=2026-11-30T08:17:14.822Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-fd96e4f6018554bc Address:node-fd96e4f6018554bc}" error="mesh: cannot reach node-fd96e4f6018554bc: context deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:14.832Z level=WARN msg="raft: failed to heartbeat to" peer=node-fd96e4f6018554bc "backoff time"=10ms error="mesh: cannot reach node-fd96e4f6018554bc: context deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:14.908Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-fd96e4f6018554bc during the call: mesh: cancelled from=node-fd96e4f6018554bc"
        time=2026-11-30T08:17:14.912Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-fd96e4f6018554bc during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:17:14.919Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-fd96e4f6018554bc leader=node-2c8d88e4c4ea11e7 leader-id=node-2c8d88e4c4ea11e7
    harness_test.go:131: time=2026-11-30T08:17:15.090Z level=WARN msg="this life of the node is over" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:15.129Z level=WARN msg="the mesh has given this node up: its sessions are ended" life=1 sessions=2
    harness_test.go:131: time=2026-11-30T08:17:15.772Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-fd96e4f6018554bc over TCP but UDP probes failed, network may be misconfigured"
    harness_test.go:131: time=2026-11-30T08:17:15.778Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-1683a837f00d0ea9)"
    faults_lab_linux_test.go:45: the leader, which is node 2, is mute; the leader is 2
    harness_test.go:131: time=2026-11-30T08:17:16.308Z level=WARN msg="raft: failed to contact" server-id=node-1683a837f00d0ea9 time=250.776506ms
    harness_test.go:131: time=2026-11-30T08:17:16.324Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-2c8d88e4c4ea11e7 over TCP but UDP probes failed, network may be misconfigured"
    harness_test.go:131: time=2026-11-30T08:17:16.325Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-fd96e4f6018554bc)"
    harness_test.go:131: time=2026-11-30T08:17:16.356Z level=WARN msg="raft: failed to contact quorum of nodes, stepping down"
    harness_test.go:131: time=2026-11-30T08:17:16.594Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=node-2c8d88e4c4ea11e7 last-leader-id=node-2c8d88e4c4ea11e7
    harness_test.go:131: time=2026-11-30T08:17:16.684Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-fd96e4f6018554bc over TCP but UDP probes failed, network may be misconfigured"
    harness_test.go:131: time=2026-11-30T08:17:16.911Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr="" last-leader-id=""
    harness_test.go:131: time=2026-11-30T08:17:17.280Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=2
    harness_test.go:131: time=2026-11-30T08:17:17.280Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:17.367Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=node-2c8d88e4c4ea11e7 last-leader-id=node-2c8d88e4c4ea11e7
    harness_test.go:131: time=2026-11-30T08:17:17.403Z level=WARN msg="raft: failed to get previous log" previous-index=56 last-index=54 error="log not found"
    harness_test.go:131: time=2026-11-30T08:17:17.452Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=2
        time=2026-11-30T08:17:17.453Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:17.529Z level=WARN msg="raft: failed to decode incoming command" error="mesh: lost node-2c8d88e4c4ea11e7 during the call: timeout: no recent network activity"
    harness_test.go:131: time=2026-11-30T08:17:17.547Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=2
    harness_test.go:131: time=2026-11-30T08:17:17.548Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:17.637Z level=WARN msg="raft: failed to contact" server-id=node-2c8d88e4c4ea11e7 time=256.341258ms
    harness_test.go:131: time=2026-11-30T08:17:18.097Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" error="msgpack decode error [pos 172]: deadline exceeded" term=9
    harness_test.go:131: time=2026-11-30T08:17:18.413Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-1683a837f00d0ea9 Address:node-1683a837f00d0ea9}" error="msgpack decode error [pos 0]: deadline exceeded" term=9
    harness_test.go:131: time=2026-11-30T08:17:18.766Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:18.823Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-1683a837f00d0ea9)"
    harness_test.go:131: time=2026-11-30T08:17:18.883Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:18.959Z level=WARN msg="raft: failed to heartbeat to" peer=node-2c8d88e4c4ea11e7 "backoff time"=10ms error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:19.322Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:19.617Z level=WARN msg="a node's lease was missed" node=node-2c8d88e4c4ea11e7 incarnation=2 state=unreachable result=marked sessions=2
    harness_test.go:131: time=2026-11-30T08:17:19.625Z level=WARN msg="a node's lease was missed" node=node-2c8d88e4c4ea11e7 incarnation=2 state=expired result=marked sessions=2
    harness_test.go:131: time=2026-11-30T08:17:20.393Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:17:20.542Z level=WARN msg="this life of the node is over" incarnation=2
        time=2026-11-30T08:17:20.542Z level=WARN msg="the mesh has given this node up: its sessions are ended" life=2 sessions=0
    harness_test.go:131: time=2026-11-30T08:17:20.686Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 4s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:20.767Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:20.926Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-2c8d88e4c4ea11e7 leader=node-fd96e4f6018554bc leader-id=node-fd96e4f6018554bc
        time=2026-11-30T08:17:20.926Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-2c8d88e4c4ea11e7 during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:17:21.072Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-2c8d88e4c4ea11e7)"
    faults_lab_linux_test.go:51: 363 calls, 353 answered, 1118 marks: map[done:353 killed:1 outcome_unknown:1 session_lost:7 session_not_found:1]
    harness_test.go:131: time=2026-11-30T08:17:21.613Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-2c8d88e4c4ea11e7 during the call: mesh: cancelled from=node-2c8d88e4c4ea11e7"
    harness_test.go:131: time=2026-11-30T08:17:21.617Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-2c8d88e4c4ea11e7 leader=node-fd96e4f6018554bc leader-id=node-fd96e4f6018554bc
    faults_lab_linux_test.go:67: [s0node-fd96e4f6018554bc61 false s1node-fd96e4f6018554bc63 false]
    harness_test.go:131: time=2026-11-30T08:17:23.729Z level=WARN msg="raft: failed to pipeline appendEntries" peer="{Suffrage:Voter ID:node-fd96e4f6018554bc Address:node-fd96e4f6018554bc}" error="mesh: lost node-fd96e4f6018554bc during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:17:24.666Z level=WARN msg="raft: failed to contact" server-id=node-fd96e4f6018554bc time=254.506821ms
    harness_test.go:131: time=2026-11-30T08:17:24.981Z level=WARN msg="raft: failed to heartbeat to" peer=node-fd96e4f6018554bc "backoff time"=10ms error="mesh: cannot reach node-fd96e4f6018554bc: context deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:25.654Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-fd96e4f6018554bc Address:node-fd96e4f6018554bc}" error="mesh: cannot reach node-fd96e4f6018554bc: context deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:25.913Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-fd96e4f6018554bc Address:node-fd96e4f6018554bc}" error="mesh: cannot reach node-fd96e4f6018554bc: context deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:26.005Z level=WARN msg="raft: failed to heartbeat to" peer=node-fd96e4f6018554bc "backoff time"=10ms error="mesh: cannot reach node-fd96e4f6018554bc: context deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:26.473Z level=WARN msg="raft: failed to decode incoming command" error="mesh: lost node-1683a837f00d0ea9 during the call: use of closed network connection"
    harness_test.go:131: time=2026-11-30T08:17:26.682Z level=WARN msg="raft: failed to pipeline appendEntries" peer="{Suffrage:Voter ID:node-2c8d88e4c4ea11e7 Address:node-2c8d88e4c4ea11e7}" error="mesh: lost node-2c8d88e4c4ea11e7 during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:17:26.715Z level=WARN msg="raft: failed to contact quorum of nodes, stepping down"
--- PASS: TestFaultsOfARealNetwork (45.04s)
=== RUN   TestFaultsOfTheNetwork
=== RUN   TestFaultsOfTheNetwork/seed_103
=== PAUSE TestFaultsOfTheNetwork/seed_103
=== CONT  TestFaultsOfTheNetwork/seed_103
    harness_test.go:131: time=2026-11-30T08:17:30.304Z level=WARN msg="raft: failed to get previous log" previous-index=9 last-index=0 error="log not found"
    harness_test.go:131: time=2026-11-30T08:17:30.306Z level=WARN msg="raft: appendEntries rejected, sending older logs" peer="{Suffrage:Nonvoter ID:node-9d6cb3cf987d583e Address:node-9d6cb3cf987d583e}" next=1
    harness_test.go:131: time=2026-11-30T08:17:31.088Z level=WARN msg="raft: failed to get previous log" previous-index=15 last-index=0 error="log not found"
    harness_test.go:131: time=2026-11-30T08:17:35.479Z level=WARN msg="raft: failed to contact" server-id=node-b3f09c72e135866c time=260.378852ms
    harness_test.go:131: time=2026-11-30T08:17:35.537Z level=WARN msg="raft: failed to contact quorum of nodes, stepping down"
    harness_test.go:131: time=2026-11-30T08:17:35.664Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-15c8c67109fa8b70 during the call: mesh: cancelled"
    faults_test.go:87: the leader 1 is cut off outwards, for 2.277828149s
    harness_test.go:131: time=2026-11-30T08:17:36.311Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr="" last-leader-id=""
    harness_test.go:131: time=2026-11-30T08:17:36.313Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:36.313Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:36.323Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=node-15c8c67109fa8b70 last-leader-id=node-15c8c67109fa8b70
    harness_test.go:131: time=2026-11-30T08:17:36.442Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:36.443Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:36.443Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:36.443Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:36.529Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-b3f09c72e135866c leader=node-15c8c67109fa8b70 leader-id=node-15c8c67109fa8b70
    harness_test.go:131: time=2026-11-30T08:17:36.872Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:17:36.952Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=node-15c8c67109fa8b70 last-leader-id=node-15c8c67109fa8b70
    harness_test.go:131: time=2026-11-30T08:17:37.007Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:17:37.312Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:37.498Z level=WARN msg="raft: failed to get previous log" previous-index=27 last-index=25 error="log not found"
    harness_test.go:131: time=2026-11-30T08:17:37.582Z level=WARN msg="raft: failed to contact" server-id=node-15c8c67109fa8b70 time=327.619451ms
    harness_test.go:131: time=2026-11-30T08:17:37.813Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-b3f09c72e135866c Address:node-b3f09c72e135866c}" error="msgpack decode error [pos 6105]: deadline exceeded" term=3
    harness_test.go:131: time=2026-11-30T08:17:37.827Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-15c8c67109fa8b70 Address:node-15c8c67109fa8b70}" error="msgpack decode error [pos 0]: deadline exceeded" term=3
    harness_test.go:131: time=2026-11-30T08:17:38.461Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-15c8c67109fa8b70 Address:node-15c8c67109fa8b70}" error="msgpack decode error [pos 0]: deadline exceeded" term=3
    harness_test.go:131: time=2026-11-30T08:17:38.606Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-15c8c67109fa8b70 leader=node-9d6cb3cf987d583e leader-id=node-9d6cb3cf987d583e
    harness_test.go:131: time=2026-11-30T08:17:38.636Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-15c8c67109fa8b70 during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:17:38.823Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:38.873Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-b3f09c72e135866c)"
    harness_test.go:131: time=2026-11-30T08:17:39.104Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-15c8c67109fa8b70 during the call: mesh: cancelled from=node-15c8c67109fa8b70"
    harness_test.go:131: time=2026-11-30T08:17:39.385Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-b3f09c72e135866c over TCP but UDP probes failed, network may be misconfigured"
    harness_test.go:131: time=2026-11-30T08:17:39.454Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-15c8c67109fa8b70)"
    faults_test.go:87: the leader 2 is cut off inwards, for 2.946026691s
    harness_test.go:131: time=2026-11-30T08:17:40.439Z level=WARN msg="raft: failed to contact quorum of nodes, stepping down"
    harness_test.go:131: time=2026-11-30T08:17:41.147Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:41.147Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:41.195Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:41.195Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:41.643Z level=WARN msg="raft: failed to heartbeat to" peer=node-15c8c67109fa8b70 "backoff time"=10ms error="msgpack decode error [pos 888]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:41.675Z level=WARN msg="raft: failed to contact" server-id=node-9d6cb3cf987d583e time=350.073576ms
    harness_test.go:131: time=2026-11-30T08:17:42.027Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:17:42.058Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-9d6cb3cf987d583e leader=node-b3f09c72e135866c leader-id=node-b3f09c72e135866c
    harness_test.go:131: time=2026-11-30T08:17:42.208Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:42.288Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-9d6cb3cf987d583e)"
    harness_test.go:131: time=2026-11-30T08:17:42.759Z level=WARN msg="raft: failed to contact quorum of nodes, stepping down"
    harness_test.go:131: time=2026-11-30T08:17:42.844Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-9d6cb3cf987d583e Address:node-9d6cb3cf987d583e}" error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:42.852Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:42.900Z level=WARN msg="raft: failed to heartbeat to" peer=node-9d6cb3cf987d583e "backoff time"=10ms error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:43.079Z level=WARN msg="raft: rejecting pre-vote request since our last term is greater" candidate=node-9d6cb3cf987d583e last-term=4 last-candidate-term=3
    harness_test.go:131: time=2026-11-30T08:17:43.277Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-b3f09c72e135866c)"
    harness_test.go:131: time=2026-11-30T08:17:43.288Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-9d6cb3cf987d583e over TCP but UDP probes failed, network may be misconfigured"
    harness_test.go:131: time=2026-11-30T08:17:43.600Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:43.600Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:43.615Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-b3f09c72e135866c during the call: mesh: cancelled from=node-b3f09c72e135866c"
    harness_test.go:131: time=2026-11-30T08:17:43.964Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:43.964Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:43.976Z level=WARN msg="raft: failed to get previous log" previous-index=29 last-index=27 error="log not found"
    harness_test.go:131: time=2026-11-30T08:17:44.009Z level=WARN msg="raft: appendEntries rejected, sending older logs" peer="{Suffrage:Voter ID:node-9d6cb3cf987d583e Address:node-9d6cb3cf987d583e}" next=28
    faults_test.go:87: the owner 3 and the leader 3 are cut off both ways, for 3.743545904s
    harness_test.go:131: time=2026-11-30T08:17:45.224Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-15c8c67109fa8b70 over TCP but UDP probes failed, network may be misconfigured"
    harness_test.go:131: time=2026-11-30T08:17:45.495Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:45.495Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:45.527Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:45.527Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:45.589Z level=WARN msg="the lease ends without a renewal; everything is frozen" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:45.590Z level=WARN msg="cut off from the mesh: sessions are held still until it is back"
    harness_test.go:131: time=2026-11-30T08:17:45.826Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:46.277Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 1s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:46.915Z level=WARN msg="raft: Election timeout reached, restarting election"
    harness_test.go:131: time=2026-11-30T08:17:46.946Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-b3f09c72e135866c Address:node-b3f09c72e135866c}" error="msgpack decode error [pos 0]: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:47.754Z level=WARN msg="a node's lease was missed" node=node-b3f09c72e135866c incarnation=1 state=unreachable result=marked sessions=2
    harness_test.go:131: time=2026-11-30T08:17:47.812Z level=WARN msg="a node's lease was missed" node=node-b3f09c72e135866c incarnation=1 state=expired result=marked sessions=2
    harness_test.go:131: time=2026-11-30T08:17:47.853Z level=WARN msg=gossip msg="[ERR] memberlist: Failed fallback TCP ping: timeout 2s: deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:47.917Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-b3f09c72e135866c)"
    harness_test.go:131: time=2026-11-30T08:17:47.979Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-b3f09c72e135866c during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:17:48.042Z level=WARN msg="raft: rejecting pre-vote request since we have a leader" from=node-b3f09c72e135866c leader=node-9d6cb3cf987d583e leader-id=node-9d6cb3cf987d583e
    harness_test.go:131: time=2026-11-30T08:17:48.064Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-b3f09c72e135866c during the call: mesh: cancelled from=node-b3f09c72e135866c"
    harness_test.go:131: time=2026-11-30T08:17:48.167Z level=WARN msg="this life of the node is over" incarnation=1
    harness_test.go:131: time=2026-11-30T08:17:48.176Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-b3f09c72e135866c over TCP but UDP probes failed, network may be misconfigured"
    harness_test.go:131: time=2026-11-30T08:17:48.240Z level=WARN msg="raft: failed to contact" server-id=node-15c8c67109fa8b70 time=261.101496ms
    harness_test.go:131: time=2026-11-30T08:17:48.255Z level=WARN msg="the mesh has given this node up: its sessions are ended" life=1 sessions=2
    harness_test.go:131: time=2026-11-30T08:17:48.356Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-15c8c67109fa8b70)"
    harness_test.go:131: time=2026-11-30T08:17:48.363Z level=WARN msg=gossip msg="[WARN] memberlist: Refuting a suspect message (from: node-15c8c67109fa8b70)"
    harness_test.go:131: time=2026-11-30T08:17:48.410Z level=WARN msg="raft: failed to get previous log" previous-index=33 last-index=31 error="log not found"
    harness_test.go:131: time=2026-11-30T08:17:48.417Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-15c8c67109fa8b70 Address:node-15c8c67109fa8b70}" error="msgpack decode error [pos 0]: deadline exceeded" term=6
    harness_test.go:131: time=2026-11-30T08:17:48.419Z level=WARN msg="raft: failed to flush response" error="mesh: lost node-b3f09c72e135866c during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:17:48.421Z level=WARN msg=gossip msg="[ERR] memberlist: Failed to send ack: mesh: lost node-b3f09c72e135866c during the call: mesh: cancelled from=node-b3f09c72e135866c"
    harness_test.go:131: time=2026-11-30T08:17:48.835Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr="" last-leader-id=""
    faults_test.go:87: the owner 3 is cut off outwards, for 678.113155ms
    harness_test.go:131: time=2026-11-30T08:17:49.969Z level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=node-9d6cb3cf987d583e last-leader-id=node-9d6cb3cf987d583e
    harness_test.go:131: time=2026-11-30T08:17:51.211Z level=WARN msg=gossip msg="[WARN] memberlist: Was able to connect to node-b3f09c72e135866c over TCP but UDP probes failed, network may be misconfigured"
    faults_test.go:92: 108 calls, 103 answered, 328 marks: map[done:103 outcome_unknown:2 session_lost:2 session_not_found:1]
    harness_test.go:131: time=2026-11-30T08:17:53.157Z level=WARN msg="raft: failed to decode incoming command" error="mesh: lost node-9d6cb3cf987d583e during the call: use of closed network connection"
    harness_test.go:131: time=2026-11-30T08:17:53.200Z level=WARN msg="raft: failed to heartbeat to" peer=node-b3f09c72e135866c "backoff time"=10ms error="mesh: lost node-b3f09c72e135866c during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:17:53.301Z level=WARN msg="raft: failed to pipeline appendEntries" peer="{Suffrage:Voter ID:node-b3f09c72e135866c Address:node-b3f09c72e135866c}" error="mesh: lost node-b3f09c72e135866c during the call: mesh: cancelled"
    harness_test.go:131: time=2026-11-30T08:17:53.858Z level=WARN msg="raft: failed to contact" server-id=node-b3f09c72e135866c time=268.051084ms
    harness_test.go:131: time=2026-11-30T08:17:55.040Z level=WARN msg="raft: failed to make requestVote RPC" target="{Suffrage:Voter ID:node-b3f09c72e135866c Address:node-b3f09c72e135866c}" error="mesh: cannot reach node-b3f09c72e135866c: context deadline exceeded" term=8
    harness_test.go:131: time=2026-11-30T08:17:55.093Z level=WARN msg="raft: failed to appendEntries to" peer="{Suffrage:Voter ID:node-b3f09c72e135866c Address:node-b3f09c72e135866c}" error="mesh: cannot reach node-b3f09c72e135866c: context deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:55.183Z level=WARN msg="raft: failed to heartbeat to" peer=node-b3f09c72e135866c "backoff time"=10ms error="mesh: cannot reach node-b3f09c72e135866c: context deadline exceeded"
    harness_test.go:131: time=2026-11-30T08:17:55.987Z level=WARN msg="raft: failed to decode incoming command" error="mesh: lost node-15c8c67109fa8b70 during the call: use of closed network connection"
    harness_test.go:131: time=2026-11-30T08:17:56.228Z level=WARN msg="raft: failed to contact quorum of nodes, stepping down"
    harness_test.go:131: time=2026-11-30T08:17:56.506Z level=WARN msg="raft: failed to decode incoming command" error="io: read/write on closed pipe"
--- PASS: TestFaultsOfTheNetwork (0.00s)
    --- PASS: TestFaultsOfTheNetwork/seed_103 (28.59s)
PASS
rc 0
