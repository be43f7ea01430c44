"""Helpers of the tests explain their assertions like tests do."""

import pytest

pytest.register_assert_rewrite("tests.support")
