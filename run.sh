#!/bin/bash
# device checks
export GPUVM_DATASETS=$PWD/datasets/graphs
nvidia-smi --query-gpu=name,driver_version,memory.free --format=csv,noheader
chmod +x .dev/*
echo "== tests"; time timeout ${TEST_S:-200} .dev/device_tests --ignored --test-threads=1 ${TESTS:-} > $OUT/tests.log 2>&1; echo "rc $?"; grep -E "^test |panicked|test result|PagingStats" $OUT/tests.log | head -30; grep -A6 "panicked" $OUT/tests.log | head -40
