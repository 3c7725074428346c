'use strict';
// What the author of a function gets from require('nimbus-state/testing'). It is made of the SDK that this package
// lies in: a copy of the package alone has none.

module.exports = require('../harness');
