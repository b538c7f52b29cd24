#pragma once

// Precompiled once for all other tests.
#include <ATen/ATen.h>

#include "host_pch.h"
