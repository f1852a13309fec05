"""What the tests of robots share."""

import pytest

from tests.reference.rigid_body_models import NAMES, load_reference


@pytest.fixture(scope="module", params=NAMES)
def reference(request):
    """Model and stored data of each reference robot."""
    return load_reference(request.param)
