"""The derivatives of rigid-body dynamics beside their competitors: one script per claim of the papers."""
