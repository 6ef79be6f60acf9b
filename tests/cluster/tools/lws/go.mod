module accel-injector/tests/cluster/tools/lws

go 1.26.0

tool sigs.k8s.io/lws/cmd

require sigs.k8s.io/lws v0.8.0
